// The two sides of admitting a link: Open -> Challenge -> Prove -> Welcome. Pure state machines: a
// message in, at most one message out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "replication/auth.h"
#include "replication/wire.h"

namespace kvstored::replication {

enum class HandshakeStep : uint8_t { kGoOn, kAdmitted, kRefused };

struct HandshakeResult {
  HandshakeStep step = HandshakeStep::kGoOn;
  std::optional<Message> reply;
  Refusal refusal = Refusal::kNone;
  std::string text;  // why refused, for our own log
};

class ConnectorHandshake {
 public:
  ConnectorHandshake(std::string secret, const Nonce& nonce)
      : secret_(std::move(secret)), nonce_(nonce) {
  }
  Message Begin() const {
    return Open{nonce_};
  }
  HandshakeResult OnMessage(const Message& message);

 private:
  const std::string secret_;
  const Nonce nonce_;
  Nonce acceptor_nonce_{};
  bool challenged_ = false;
};

class AcceptorHandshake {
 public:
  AcceptorHandshake(std::string secret, const Nonce& nonce, std::string peer, bool loopback)
      : secret_(std::move(secret)), nonce_(nonce), peer_(std::move(peer)), loopback_(loopback) {
  }
  HandshakeResult OnMessage(const Message& message);

 private:
  HandshakeResult Refuse(Refusal refusal, std::string text) const;

  const std::string secret_;
  const Nonce nonce_;
  const std::string peer_;
  const bool loopback_;
  Nonce connector_nonce_{};
  bool opened_ = false;
};

}  // namespace kvstored::replication
