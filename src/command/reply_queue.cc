#include "command/reply_queue.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace kvstored::command {
namespace {

constexpr size_t kPiecesMax = 64;
constexpr size_t kKeptOutputBytes = 256 << 10;
// Bytes a connection may hand over in one tick, so that one large reply does not stop the others.
constexpr int64_t kFlushBudgetBytes = 4 << 20;

}  // namespace

void AppendReply(Reply* to, Reply* from) {
  if (to->bytes.empty() && to->externals.empty()) {
    std::swap(*to, *from);
    return;
  }
  const size_t base = to->bytes.size();
  to->bytes.append(from->bytes);
  for (Reply::External& external : from->externals) {
    to->externals.push_back({base + external.offset, std::move(external.chain)});
  }
  from->clear();
}

void MoveTail(Reply* from, size_t bytes, size_t external_count, Reply* to) {
  const size_t base = to->bytes.size();
  to->bytes.append(from->bytes, bytes);
  for (size_t i = external_count; i < from->externals.size(); ++i) {
    Reply::External& external = from->externals[i];
    to->externals.push_back({base + external.offset - bytes, std::move(external.chain)});
  }
  from->bytes.resize(bytes);
  from->externals.resize(external_count);
}

void Output::Advance(uint64_t bytes) {
  while (bytes > 0) {
    const bool external_left = next_external_ < reply_.externals.size();
    const size_t until =
        external_left ? reply_.externals[next_external_].offset : reply_.bytes.size();
    if (sent_bytes_ < until) {
      const uint64_t step = std::min<uint64_t>(bytes, until - sent_bytes_);
      sent_bytes_ += step;
      bytes -= step;
      continue;
    }
    KVS_CHECK(external_left, "bytes=%lu", bytes);
    store::ChainRef& chain = reply_.externals[next_external_].chain;
    const uint64_t step = std::min(bytes, chain.size_bytes() - external_sent_);
    external_sent_ += step;
    bytes -= step;
    if (external_sent_ == chain.size_bytes()) {
      chain = store::ChainRef();
      ++next_external_;
      external_sent_ = 0;
    }
  }
}

void Output::Compact() {
  if (sent_bytes_ < kKeptOutputBytes || sent_bytes_ < reply_.bytes.size() / 2) {
    return;
  }
  reply_.externals.erase(reply_.externals.begin(),
                         reply_.externals.begin() + static_cast<std::ptrdiff_t>(next_external_));
  next_external_ = 0;
  for (Reply::External& external : reply_.externals) {
    external.offset -= sent_bytes_;
  }
  reply_.bytes.erase(0, sent_bytes_);
  sent_bytes_ = 0;
}

Output::FlushResult Output::Flush(net::Connection* connection) {
  int64_t budget_bytes = kFlushBudgetBytes;
  while (!empty()) {
    if (budget_bytes <= 0) {
      return FlushResult::kMore;
    }
    std::array<std::string_view, kPiecesMax> pieces;
    size_t count = 0;
    int64_t wanted = 0;
    const auto add = [&](std::string_view piece) {
      if (!piece.empty()) {
        pieces[count++] = piece;
        wanted += static_cast<int64_t>(piece.size());
      }
    };
    size_t at = sent_bytes_;
    uint64_t skip = external_sent_;
    size_t external = next_external_;
    while (count < kPiecesMax && wanted < kFlushBudgetBytes) {
      const size_t until = external < reply_.externals.size() ? reply_.externals[external].offset
                                                              : reply_.bytes.size();
      add(std::string_view(reply_.bytes).substr(at, until - at));
      at = until;
      if (external == reply_.externals.size()) {
        break;
      }
      const store::ChainRef& chain = reply_.externals[external].chain;
      while (skip < chain.size_bytes() && count < kPiecesMax && wanted < kFlushBudgetBytes) {
        const std::string_view piece = chain.PieceAt(skip);
        add(piece);
        skip += piece.size();
      }
      if (skip < chain.size_bytes()) {
        break;
      }
      ++external;
      skip = 0;
    }
    const int64_t sent = connection->Send({pieces.data(), count});
    if (sent < 0) {
      return FlushResult::kFailed;
    }
    Advance(static_cast<uint64_t>(sent));
    budget_bytes -= sent;
    if (sent < wanted) {
      Compact();
      return FlushResult::kPending;
    }
  }
  reply_.clear();
  if (reply_.bytes.capacity() > kKeptOutputBytes) {
    reply_.bytes.shrink_to_fit();
  }
  sent_bytes_ = next_external_ = 0;
  external_sent_ = 0;
  return FlushResult::kEmpty;
}

void ReplyQueue::Push(Op* op) {
  op->queue_next = nullptr;
  if (tail_ == nullptr) {
    head_ = op;
  } else {
    tail_->queue_next = op;
  }
  tail_ = op;
  ++size_;
}

Op* ReplyQueue::PopDone() {
  Op* op = head_;
  if (op == nullptr || !op->done) {
    return nullptr;
  }
  head_ = op->queue_next;
  if (head_ == nullptr) {
    tail_ = nullptr;
  }
  --size_;
  return op;
}

}  // namespace kvstored::command
