// What comes back to a session from shards, other threads and transactions: results are gathered
// into their replies, and the commands that waited for them may run.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "command/dispatch.h"
#include "command/front_thread.h"
#include "command/session.h"

namespace kvstored::command {

void Session::OnReturned(Op* op) {
  if (op->remote) {
    --remote_out_;
    if (remote_out_ == 0) {
      Unblock(kBlockedDrain);
    }
  }
  if (op->written != 0) {
    NoteWrite(op->shard, op->written);
  }
  if (op->parent == nullptr) {
    NoteTimeOf(*op);
    op->done = true;
    queued_bytes_ += op->reply.bytes.size();
  } else {
    Op* parent = op->parent;
    parent->elapsed_us += op->elapsed_us;
    switch (op->kind) {
      case OpKind::kFanPart: {
        const std::string& bytes = op->reply.bytes;
        if (!bytes.empty() && bytes[0] == ':') {
          parent->sum += std::strtoll(bytes.c_str() + 1, nullptr, 10);
        } else if (parent->error.empty()) {
          parent->error = bytes;
        }
        break;
      }
      case OpKind::kWatchPart:
        for (size_t i = 0; i < op->pack.keys().size(); ++i) {
          const Key& key = op->pack.keys()[i];
          watched_.push_back(
              {std::string(key.bytes), key.digest, op->shard, std::move(op->watches[i])});
        }
        break;
      default:
        if (op->result == OpResult::kOk) {
          parent->parts[op->part] = std::move(op->parts[0]);
        } else if (parent->error.empty()) {
          resp::Writer writer(&parent->error, 2);
          WriteOutcome(writer, op->result);
        }
    }
    front_->Recycle(op);
    if (--parent->parts_left == 0) {
      FinishParent(parent);
    }
  }
  if (!in_input_) {
    Pump();
  }
}

// Of a command whose parts ran at shards, without what it waited.
void Session::NoteTimeOf(const Op& op) {
  if (op.spec != nullptr) {
    front_->NoteTime(*this, op.spec, op.pack.args(), static_cast<uint64_t>(op.elapsed_us) * 1000);
  }
}

// All parts are there: writes the reply.
void Session::FinishParent(Op* op) {
  if (!op->error.empty()) {
    op->reply.bytes = op->error;
  } else if (connection_ != nullptr) {
    WriteInto(op, [&] {
      switch (op->kind) {
        case OpKind::kFan:
          out_.Integer(op->sum);
          break;
        case OpKind::kShards:
          op->spec->merge_handler(*this, op->pack.args(), op->parts);
          break;
        case OpKind::kGather:
          gather_merge_(*this, op->pack.args(), op->parts);
          break;
        default:
          out_.Simple("OK");
      }
    });
  }
  NoteTimeOf(*op);
  if (op->kind == OpKind::kGather) {
    Unblock(kBlockedControl);
  }
  queued_bytes_ += op->reply.bytes.size();
  op->done = true;
}

void Session::OnLocalParked() {
  ++local_parked_;
  blocked_ |= kBlockedParked;
}

void Session::OnLocalUnparked() {
  KVS_CHECK(local_parked_ > 0, "session=%lu", id_);
  if (--local_parked_ == 0) {
    Unblock(kBlockedParked);
  }
}

void Session::OnTransactionClosed() {
  Unblock(kBlockedTransaction);
}

void Session::OnTransactionDone(Op* op) {
  op->done = true;
  queued_bytes_ += op->reply.bytes.size();
  if (!in_input_) {
    Pump();
  }
}

void Session::NoteWrite(ShardId shard, Seq seq) {
  if (written_.empty()) {
    written_.resize(front_->thread().shard_count(), 0);
  }
  written_[shard] = std::max(written_[shard], seq);
}

}  // namespace kvstored::command
