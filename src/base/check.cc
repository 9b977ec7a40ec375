#include "base/check.h"

namespace kvstored::base {

void CheckFailed(const char* file, int line, const char* expression, const char* values) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, expression, values);
  std::fflush(stderr);
  std::abort();
}

}  // namespace kvstored::base
