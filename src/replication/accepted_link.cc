#include "replication/accepted_link.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::replication {

std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

AcceptedLink::AcceptedLink(EngineContext* context, std::string peer, bool loopback)
    : Link(context),
      peer_(std::move(peer)),
      handshake_(context->options.secret, context->NewNonce(), peer_, loopback) {
}

void AcceptedLink::OnMessage(Message& message) {
  if (lingering()) {
    return;
  }
  if (!admitted_) {
    HandshakeResult result = handshake_.OnMessage(message);
    if (result.step == HandshakeStep::kRefused) {
      ++context_->counters->links_refused;
      base::LogWarning(absl::StrFormat("refused a replication link: %s", result.text));
      RefuseAndLinger(std::get<Refused>(*result.reply));
      return;
    }
    admitted_ = result.step == HandshakeStep::kAdmitted;
    if (admitted_) {
      base::LogDebug(absl::StrFormat("replication link from %s: admitted", peer_));
    }
    Send(*result.reply);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&message)) {
    context_->host->Admit(this, *hello, HostOf(peer_));
  } else if (const auto* ask = std::get_if<Ask>(&message)) {
    OnAsk(*ask);
  } else if (const auto* request = std::get_if<TailRequest>(&message)) {
    OnTailRequest(*request);
  } else {
    RefuseAndLinger({Refusal::kMalformed, "unexpected message after admission", ""});
  }
}

void AcceptedLink::OnClosed(const absl::Status& why) {
  base::LogDebug(
      absl::StrFormat("replication link from %s: ended: %s", peer_, std::string(why.message())));
}

void AcceptedLink::OnAsk(const Ask& ask) {
  const auto answer = [this](const absl::Status& status) {
    Send(Answer{status.ok(), std::string(status.message()), context_->facts()});
  };
  switch (static_cast<PeerQuestion>(ask.question)) {
    case PeerQuestion::kWhoAreYou:
      answer(absl::OkStatus());
      return;
    case PeerQuestion::kPromise:
      context_->state->PersistPromise(ask.number, alive_.Guard<absl::Status>(*context_, answer));
      return;
    case PeerQuestion::kAnnounce:
      context_->state->OnNewerPrimary(
          ask.facts, absl::StrFormat("%s:%d", HostOf(peer_), ask.facts.replication_port));
      answer(absl::OkStatus());
      return;
  }
  Send(Answer{false, absl::StrFormat("unknown question %d", ask.question), NodeFacts()});
}

void AcceptedLink::OnTailRequest(const TailRequest& request) {
  if (request.shard >= context_->options.shard_count) {
    Send(TailPiece{false, true, "no such shard", {}});
    return;
  }
  const NodeFacts facts = context_->facts();
  if (facts.ends.size() <= request.shard || request.from_seq > facts.ends[request.shard].end) {
    Send(TailPiece{true, true, "", {}});
    return;
  }
  context_->source->ReadLog(
      request.shard, request.from_seq, std::min<size_t>(request.max_bytes, kRecordBytesMax),
      alive_.Guard<absl::StatusOr<record::BatchRef>>(
          *context_, [this](const absl::StatusOr<record::BatchRef>& batch) { SendTail(batch); }));
}

void AcceptedLink::SendTail(const absl::StatusOr<record::BatchRef>& batch) {
  if (!batch.ok()) {
    Send(TailPiece{false, true, std::string(batch.status().message()), {}});
    return;
  }
  const std::vector<uint8_t>& bytes = (*batch)->bytes;
  size_t at = 0;
  do {
    const size_t count = std::min(kTailPieceBytesMax, bytes.size() - at);
    TailPiece piece;
    piece.ok = true;
    piece.bytes.assign(bytes.data() + at, bytes.data() + at + count);
    at += count;
    piece.is_last = at == bytes.size();
    Send(piece);
  } while (at < bytes.size());
}

}  // namespace kvstored::replication
