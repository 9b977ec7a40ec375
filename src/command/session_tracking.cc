// A session that tracks (CLIENT TRACKING): its state, and the messages that it or the client it
// names gets.
#include <string>
#include <utility>

#include "command/front_thread.h"
#include "command/session.h"

namespace kvstored::command {

void Session::CountTracking() {
  if (!std::exchange(counted_as_tracking_, true)) {
    front_->set().tracking().clients.fetch_add(1);  // partner: Tracking::OnTick
  }
}

void Session::UncountTracking() {
  if (tracking_ == nullptr && std::exchange(counted_as_tracking_, false)) {
    front_->set().tracking().clients.fetch_sub(1);
  }
}

void Session::StartTracking(const TrackingOptions& options,
                            std::span<const std::string_view> prefixes) {
  if (tracking_ == nullptr) {
    tracking_ = std::make_unique<TrackingState>();
    front_->tracking().Add(this);
    if (options.broadcast) {
      front_->set().tracking().broadcasts.fetch_add(1);  // partner: Tracking::OnChange
    }
  }
  tracking_->options = options;
  tracking_->broken_redirect = false;
  const size_t before = tracking_->prefixes.size();
  tracking_->prefixes.insert(prefixes.begin(), prefixes.end());
  if (options.broadcast && prefixes.empty()) {
    tracking_->prefixes.insert("");
  }
  front_->tracking().prefix_count.Set(front_->tracking().prefix_count.value() +
                                      tracking_->prefixes.size() - before);
}

void Session::StopTracking() {
  if (tracking_ != nullptr) {
    front_->tracking().Remove(this);
    front_->tracking().prefix_count.Set(front_->tracking().prefix_count.value() -
                                        tracking_->prefixes.size());
    if (tracking_->options.broadcast) {
      front_->set().tracking().broadcasts.fetch_sub(1);
    }
    tracking_.reset();
  }
  UncountTracking();
}

int64_t Session::TrackingRedirect() const {
  return tracking_ == nullptr ? -1 : static_cast<int64_t>(tracking_->options.redirect);
}

void Session::Invalidate(std::string keys) {
  if (tracking_->options.redirect == 0) {
    PushInvalidation(keys);
  } else if (queue_.empty()) {
    front_->tracking().Forward(*this, std::move(keys));
  } else {
    Push(std::move(keys), /*redirected=*/true);
  }
}

// RESP2 has no messages beside replies but those of publish/subscribe.
void Session::PushInvalidation(std::string_view keys) {
  if (protocol_ < 3) {
    return;
  }
  std::string bytes;
  resp::Writer writer(&bytes, protocol_);
  writer.Push(2);
  writer.Bulk("invalidate");
  bytes += keys;
  Push(std::move(bytes), /*redirected=*/false);
}

void Session::OnRedirectBroken(uint64_t target) {
  if (tracking_ == nullptr || tracking_->options.redirect != target) {
    return;
  }
  tracking_->broken_redirect = true;
  if (protocol_ >= 3) {
    std::string bytes;
    resp::Writer writer(&bytes, protocol_);
    writer.Push(2);
    writer.Bulk("tracking-redir-broken");
    writer.Integer(static_cast<int64_t>(target));
    Push(std::move(bytes), /*redirected=*/false);
  }
}

// Behind everything that was asked before; CLIENT REPLY is no matter here.
void Session::Push(std::string bytes, bool redirected) {
  if (connection_ == nullptr) {
    return;
  }
  if (queue_.empty() && !redirected) {
    output_.reply()->bytes += bytes;
    front_->NoteReady(this);
    return;
  }
  Op* op = front_->NewOp(OpKind::kPush, this);
  op->reply.bytes = std::move(bytes);
  op->redirected = redirected;
  Enqueue(op);
  op->silent = false;
  op->done = true;
  queued_bytes_ += op->reply.bytes.size();
}

uint32_t Session::home_thread() const {
  return front_->index();
}

}  // namespace kvstored::command
