// A link that we opened: proves the secret, then goes on as what it was opened for.
#pragma once

#include <string>

#include "replication/link.h"

namespace kvstored::replication {

class OutgoingLink : public Link {
 public:
  explicit OutgoingLink(EngineContext* context)
      : Link(context), handshake_(context->options.secret, context->NewNonce()) {
  }

  void OnConnected() final {
    Send(handshake_.Begin());
  }
  void OnMessage(Message& message) final {
    if (admitted_) {
      if (const auto* refused = std::get_if<Refused>(&message)) {
        Refuse(refused->refusal, refused->text);
      } else {
        OnAdmittedMessage(message);
      }
      return;
    }
    HandshakeResult result = handshake_.OnMessage(message);
    if (result.step == HandshakeStep::kRefused) {
      Refuse(result.refusal, result.text);
      return;
    }
    if (result.reply) {
      Send(*result.reply);
    }
    if (result.step == HandshakeStep::kAdmitted) {
      admitted_ = true;
      OnAdmitted();
    }
  }
  size_t message_bytes_max() const override {
    return admitted_ ? kMessageBytesMax : kEarlyMessageBytesMax;
  }

 protected:
  virtual void OnAdmitted() = 0;
  virtual void OnAdmittedMessage(Message& message) = 0;
  // Before Close: either side does not want this link.
  virtual void OnRefused(Refusal refusal, const std::string& text) = 0;

  void Refuse(Refusal refusal, const std::string& text) {
    ++context_->counters->links_refused;
    OnRefused(refusal, text);
    Close(absl::PermissionDeniedError(text));
  }

 private:
  ConnectorHandshake handshake_;
  bool admitted_ = false;
};

}  // namespace kvstored::replication
