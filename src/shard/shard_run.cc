// Large values (P4): copied into a chain, emitted as a run of inert parts as far as the window and
// the tick allow, then linked.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/endian.h"
#include "kvstored/limits.h"
#include "shard/shard.h"
#include "store/chain.h"

namespace kvstored::shard {
namespace {

// Of a large value inside a transaction, copied or emitted in one tick: about a millisecond.
constexpr uint64_t kForcedStepBytes = 2 << 20;
// Whole pieces of a chain.
constexpr uint64_t kCopyBytes = 8 * store::kPieceBytes;

}  // namespace

OpResult Shard::Yield() {
  parked_may_run_ = true;
  return OpResult::kWait;
}

// piece_at(offset): the bytes there, as far as they are contiguous.
template <typename PieceAt>
OpResult Shard::FillRun(uint64_t total_bytes, PieceAt piece_at, uint64_t bytes_max, Run* run) {
  if (!run->filling) {
    run->filling.emplace(store_.NewChain(total_bytes));
  }
  store::ChainBuilder& filling = *run->filling;
  const uint64_t begin = filling.written_bytes();
  while (filling.written_bytes() < total_bytes) {
    if (filling.written_bytes() - begin >= bytes_max) {
      return Yield();
    }
    const std::string_view piece = piece_at(filling.written_bytes());
    if (filling.Write(piece.substr(0, kCopyBytes)) != OpResult::kOk) {
      run->filling.reset();
      return AskPlace();
    }
  }
  run->chain = filling.Finish();
  run->filling.reset();
  run->emitted_bytes = 0;
  run->id = 0;
  run->open = nullptr;
  return OpResult::kOk;
}

OpResult Shard::MakeRun(std::string_view value, Run* run, bool force, bool at_once) {
  if (!force && !run->filling) {
    if (const OpResult room = AskRoom(value.size()); room != OpResult::kOk) {
      return room;
    }
  }
  return FillRun(
      value.size(), [value](uint64_t offset) { return value.substr(offset); },
      force && !at_once ? kForcedStepBytes : UINT64_MAX, run);
}

OpResult Shard::CopyRun(const store::ChainRef& value, Run* run, bool force) {
  if (!force && !run->filling) {
    if (const OpResult room = AskRoom(value.size_bytes()); room != OpResult::kOk) {
      return room;
    }
  }
  return FillRun(
      value.size_bytes(), [&value](uint64_t offset) { return value.PieceAt(offset); },
      kForcedStepBytes, run);
}

OpResult Shard::EmitRun(Run* run, const Key& key, bool force) {
  const uint64_t total_bytes = run->chain.size_bytes();
  const uint64_t begin = run->emitted_bytes;
  std::string piece;
  while (run->emitted_bytes < total_bytes) {
    if (force && run->emitted_bytes - begin >= kForcedStepBytes) {
      return Yield();
    }
    const uint64_t piece_bytes =
        std::min<uint64_t>(kPartBytesMax, total_bytes - run->emitted_bytes);
    const OpResult reserved = ReserveLog(1, key.bytes.size() + piece_bytes, force);
    if (reserved != OpResult::kOk) {
      return reserved;
    }
    piece.resize(piece_bytes);
    run->chain.CopyTo(run->emitted_bytes, piece.data(), piece_bytes);
    record::Record record{.digest = key.digest,
                          .op = RecordOp::kPart,
                          .expiry_ms = total_bytes,
                          .aux = run->id,
                          .key = key.bytes,
                          .value = piece};
    // A part never belongs to a transaction: only its link has an effect.
    const uint64_t txn_id = std::exchange(txn_id_, 0);
    const OpResult emitted = Emit(&record);
    txn_id_ = txn_id;
    KVS_CHECK(emitted == OpResult::kOk, "emitted=%d", static_cast<int>(emitted));
    if (run->id == 0) {
      run->id = record.seq;
      run->open = std::make_shared<const Seq>(record.seq);
      emitting_.push_back(run->open);
    }
    run->emitted_bytes += piece_bytes;
    // One part is the largest record: sealing here keeps batches small enough for ring and log.
    Seal();
  }
  return OpResult::kOk;
}

OpResult Shard::SetRun(const Key& key, Run run, uint64_t expiry_ms) {
  const uint64_t total_bytes = run.chain.size_bytes();
  KVS_CHECK(run.id != 0 && run.emitted_bytes == total_bytes, "emitted=%lu total=%lu",
            run.emitted_bytes, total_bytes);
  const OpResult put = store_.PutChain(key, std::move(run.chain), expiry_ms, applied_ + 1);
  if (put != OpResult::kOk) {
    return put;
  }
  if (change_listener_ != nullptr) {
    TellListener(RecordOp::kLink, key.bytes);
  }
  std::string value(8, '\0');
  base::StoreBe64(value.data(), total_bytes);
  record::Record record{.digest = key.digest,
                        .op = RecordOp::kLink,
                        .expiry_ms = expiry_ms,
                        .aux = run.id,
                        .key = key.bytes,
                        .value = value};
  return Emit(&record);
}

}  // namespace kvstored::shard
