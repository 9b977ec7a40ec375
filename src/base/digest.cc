#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

namespace kvstored::base {

Digester::Digester(const Id128& seed) : secret_(XXH3_SECRET_DEFAULT_SIZE) {
  const XXH_errorcode code =
      XXH3_generateSecret(secret_.data(), secret_.size(), seed.bytes.data(), seed.bytes.size());
  KVS_CHECK(code == XXH_OK, "code=%d", static_cast<int>(code));
}

Digest Digester::Of(std::string_view key) const {
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size());
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace kvstored::base
