#include "replication/handshake.h"

#include "absl/strings/str_format.h"

namespace kvstored::replication {
namespace {

HandshakeResult Fail(Refusal refusal, std::string text) {
  HandshakeResult result;
  result.step = HandshakeStep::kRefused;
  result.refusal = refusal;
  result.text = std::move(text);
  return result;
}

}  // namespace

HandshakeResult ConnectorHandshake::OnMessage(const Message& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    return Fail(refused->refusal, refused->text);
  }
  HandshakeResult result;
  if (const auto* challenge = std::get_if<Challenge>(&message);
      challenge != nullptr && !challenged_) {
    challenged_ = true;
    acceptor_nonce_ = challenge->nonce;
    if (challenge->secret_required && secret_.empty()) {
      return Fail(Refusal::kAuthentication,
                  "the peer asks for a shared secret and none is configured here; set "
                  "replication.secret_file to the peer's secret");
    }
    if (!challenge->secret_required && !secret_.empty()) {
      return Fail(Refusal::kAuthentication,
                  "a shared secret is configured here but the peer has none; set "
                  "replication.secret_file there");
    }
    Prove prove;
    if (!secret_.empty()) {
      prove.proof = ComputeProof(secret_, LinkSide::kConnector, nonce_, acceptor_nonce_);
    }
    result.reply = prove;
    return result;
  }
  if (const auto* welcome = std::get_if<Welcome>(&message); welcome != nullptr && challenged_) {
    if (!secret_.empty() && !ProofsEqual(welcome->proof, ComputeProof(secret_, LinkSide::kAcceptor,
                                                                      nonce_, acceptor_nonce_))) {
      return Fail(Refusal::kAuthentication,
                  "the peer does not know the shared secret: replication.secret_file differs");
    }
    result.step = HandshakeStep::kAdmitted;
    return result;
  }
  return Fail(Refusal::kMalformed, "a message out of order before the link was admitted");
}

HandshakeResult AcceptorHandshake::Refuse(Refusal refusal, std::string text) const {
  HandshakeResult result = Fail(refusal, absl::StrFormat("%s: %s", peer_, text));
  result.reply = Refused{refusal, std::move(text), ""};
  return result;
}

HandshakeResult AcceptorHandshake::OnMessage(const Message& message) {
  HandshakeResult result;
  if (const auto* open = std::get_if<Open>(&message); open != nullptr && !opened_) {
    if (secret_.empty() && !loopback_) {
      return Refuse(Refusal::kNotLoopback,
                    "no shared secret is configured on this node, so that only loopback peers may "
                    "connect; set replication.secret_file on both");
    }
    opened_ = true;
    connector_nonce_ = open->nonce;
    result.reply = Challenge{nonce_, !secret_.empty()};
    return result;
  }
  if (const auto* prove = std::get_if<Prove>(&message); prove != nullptr && opened_) {
    Welcome welcome;
    if (!secret_.empty()) {
      if (!ProofsEqual(prove->proof,
                       ComputeProof(secret_, LinkSide::kConnector, connector_nonce_, nonce_))) {
        return Refuse(
            Refusal::kAuthentication,
            "the connecting node does not know the shared secret: replication.secret_file "
            "differs");
      }
      welcome.proof = ComputeProof(secret_, LinkSide::kAcceptor, connector_nonce_, nonce_);
    }
    result.step = HandshakeStep::kAdmitted;
    result.reply = welcome;
    return result;
  }
  return Refuse(Refusal::kMalformed, "a message out of order before the link was admitted");
}

}  // namespace kvstored::replication
