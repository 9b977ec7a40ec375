// Proof that both ends of a link know the shared secret: HMAC-SHA256 over both nonces, with the
// side's name, so that no answer can be reflected. The connecting side proves first: an unknown
// caller learns nothing that depends on the secret.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kvstored::replication {

using Nonce = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;

enum class LinkSide : uint8_t { kConnector, kAcceptor };

Proof ComputeProof(std::string_view secret, LinkSide side, const Nonce& connector,
                   const Nonce& acceptor);
// In constant time.
bool ProofsEqual(const Proof& a, const Proof& b);

}  // namespace kvstored::replication
