// A link that a peer opened to us: admits it, then answers its questions or hands it over as a
// replica.
#pragma once

#include <memory>
#include <string>

#include "replication/link.h"

namespace kvstored::replication {

class AcceptedLink : public Link {
 public:
  AcceptedLink(EngineContext* context, std::string peer, bool loopback);

  void OnMessage(Message& message) override;
  void OnClosed(const absl::Status& why) override;
  size_t message_bytes_max() const override {
    return admitted_ ? kMessageBytesMax : kEarlyMessageBytesMax;
  }
  bool admitted() const {
    return admitted_;
  }

 private:
  void OnAsk(const Ask& ask);
  void OnTailRequest(const TailRequest& request);
  void SendTail(const absl::StatusOr<record::BatchRef>& batch);

  const std::string peer_;
  AcceptorHandshake handshake_;
  bool admitted_ = false;
};

// "ip:port" or "[v6]:port" without the port.
std::string HostOf(const std::string& address);

}  // namespace kvstored::replication
