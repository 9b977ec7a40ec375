#include "replication/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>

#include "base/check.h"

namespace kvstored::replication {

Proof ComputeProof(std::string_view secret, LinkSide side, const Nonce& connector,
                   const Nonce& acceptor) {
  constexpr std::string_view kContext = "kvstored replication link 1 ";
  std::array<uint8_t, kContext.size() + 1 + 2 * sizeof(Nonce)> text;
  std::memcpy(text.data(), kContext.data(), kContext.size());
  uint8_t* at = text.data() + kContext.size();
  *at++ = side == LinkSide::kConnector ? 'c' : 'a';
  std::memcpy(at, connector.data(), connector.size());
  std::memcpy(at + connector.size(), acceptor.data(), acceptor.size());
  Proof proof{};
  unsigned int size_bytes = 0;
  const unsigned char* ok = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                 text.data(), text.size(), proof.data(), &size_bytes);
  KVS_CHECK(ok != nullptr && size_bytes == proof.size(), "size=%u", size_bytes);
  return proof;
}

bool ProofsEqual(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kvstored::replication
