#include "kvbench/session.h"

#include <bit>

namespace kvstored::bench {

// One more than the depth: a WAIT may follow a burst.
Session::Session(SessionShared* shared)
    : shared_(shared),
      scanner_(NewReplyScanner(shared->options->dialect, this)),
      in_flight_(std::bit_ceil(size_t{shared->options->depth} + 1)) {
}

void Session::Greet() {
  outbox_.Append(shared_->requests->greeting());
  greetings_left_ = shared_->requests->greeting_replies();
}

void Session::Push(const InFlight& entry) {
  in_flight_[(in_flight_at_ + in_flight_count_) & (in_flight_.size() - 1)] = entry;
  ++in_flight_count_;
}

void Session::StartOne(uint64_t intended_ns) {
  if (Measured(intended_ns)) {
    --shared_->operations_left;
  }
  const Operation operation = shared_->workload->Next();
  switch (operation.kind) {
    case OperationKind::kRead:
    case OperationKind::kReadModifyWrite:
      shared_->requests->Get(operation.key, &outbox_);
      break;
    case OperationKind::kUpdate:
    case OperationKind::kInsert:
      shared_->requests->Set(operation, &outbox_);
      break;
  }
  Push({.intended_ns = intended_ns, .operation = operation, .part = InFlight::Part::kWhole});
}

void Session::Start(uint64_t now_ns) {
  if (!greeted()) {
    return;
  }
  const uint32_t depth = shared_->options->depth;
  if (pace_.interval_ns > 0) {
    while (in_flight_count_ < depth && NextDueNs() <= now_ns && NextDueNs() < pace_.stop_ns &&
           shared_->operations_left > 0) {
      StartOne(NextDueNs());
      ++due_count_;
    }
    return;
  }
  if (in_flight_count_ > 0 || now_ns >= pace_.stop_ns) {
    return;
  }
  while (in_flight_count_ < depth && shared_->operations_left > 0) {
    StartOne(now_ns);
  }
  if (in_flight_count_ > 0 && shared_->options->wait_replicas > 0) {
    shared_->requests->Wait(&outbox_);
    Push({.intended_ns = now_ns, .operation = {}, .part = InFlight::Part::kWait});
  }
}

void Session::Take(const char* bytes, size_t size, uint64_t now_ns) {
  now_ns_ = now_ns;
  scanner_->Scan(bytes, size);
}

void Session::Skip(size_t size, uint64_t now_ns) {
  now_ns_ = now_ns;
  scanner_->Skip(size);
}

void Session::OnReply(const Reply& reply) {
  const bool error = reply.kind == Reply::Kind::kError;
  if (greetings_left_ > 0 && !error) {
    --greetings_left_;
    return;
  }
  if (greetings_left_ > 0 || in_flight_count_ == 0) {
    if (failure_.empty()) {
      failure_ = "the server says: " + std::string(error ? reply.text : "a reply to no request");
    }
    return;
  }
  const InFlight entry = in_flight_[in_flight_at_];
  in_flight_at_ = (in_flight_at_ + 1) & (in_flight_.size() - 1);
  --in_flight_count_;
  if (entry.part == InFlight::Part::kWait) {
    FinishWait(entry, reply);
    return;
  }
  const OperationKind kind = entry.operation.kind;
  const bool measured = Measured(entry.intended_ns);
  Measurement* const measurement = shared_->measurement;
  if (kind == OperationKind::kInsert) {
    shared_->keys->Answer(entry.operation.key);
  }
  if (error) {
    if (measured) {
      measurement->CountError(reply.text);
    }
    return;
  }
  const bool read = kind == OperationKind::kRead || kind == OperationKind::kReadModifyWrite;
  if (measured && read && entry.part == InFlight::Part::kWhole) {
    ++(reply.kind == Reply::Kind::kMiss ? measurement->misses : measurement->hits);
  }
  if (kind == OperationKind::kReadModifyWrite && entry.part == InFlight::Part::kWhole) {
    shared_->requests->Set(entry.operation, &outbox_);
    Push({.intended_ns = entry.intended_ns,
          .operation = entry.operation,
          .part = InFlight::Part::kModify});
    return;
  }
  if (measured) {
    measurement->latency_ns[static_cast<size_t>(kind)].Record(now_ns_ - entry.intended_ns);
    measurement->last_reply_ns = now_ns_;
  }
}

void Session::FinishWait(const InFlight& wait, const Reply& reply) {
  if (!Measured(wait.intended_ns)) {
    return;
  }
  Measurement* const measurement = shared_->measurement;
  if (reply.kind == Reply::Kind::kError) {
    measurement->CountError(reply.text);
    return;
  }
  measurement->short_waits += reply.number < int64_t{shared_->options->wait_replicas} ? 1 : 0;
  measurement->wait_ns.Record(now_ns_ - wait.intended_ns);
  measurement->last_reply_ns = now_ns_;
}

void Session::Lose() {
  for (; in_flight_count_ > 0; --in_flight_count_) {
    const InFlight& entry = in_flight_[in_flight_at_];
    if (entry.operation.kind == OperationKind::kInsert) {
      shared_->keys->Answer(entry.operation.key);
    }
    if (Measured(entry.intended_ns) && entry.part != InFlight::Part::kWait) {
      ++shared_->measurement->lost;
    }
    in_flight_at_ = (in_flight_at_ + 1) & (in_flight_.size() - 1);
  }
  greetings_left_ = 0;
  outbox_.Clear();
  scanner_ = NewReplyScanner(shared_->options->dialect, this);
}

bool Session::Done(uint64_t now_ns) const {
  if (waiting()) {
    return false;
  }
  const uint64_t next_ns = pace_.interval_ns > 0 ? NextDueNs() : now_ns;
  return next_ns >= pace_.stop_ns || shared_->operations_left == 0;
}

uint64_t Session::NextDueNs() const {
  return pace_.first_due_ns +
         static_cast<uint64_t>(static_cast<double>(due_count_) * pace_.interval_ns);
}

}  // namespace kvstored::bench
