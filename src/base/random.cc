#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"

namespace kvstored::base {

uint64_t SystemRandom() {
  uint64_t value = 0;
  const ssize_t got = ::getrandom(&value, sizeof(value), 0);
  KVS_CHECK(got == sizeof(value), "got=%zd errno=%d", got, errno);
  return value;
}

}  // namespace kvstored::base
