#include "store/chain.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace kvstored::store {
namespace {

constexpr size_t kTableBytes = kTablePieces * sizeof(char*);

}  // namespace

void Chain::Release() {
  // acq_rel: our reads of the pieces happen before the owner reuses them (partner: the same line on
  // the thread that drops the last count, and the acquire in ChainSpace::Drain).
  if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  std::atomic<Chain*>& head = space_->released_;
  next_released_ = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(next_released_, this, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

void Chain::Read(uint64_t offset, char* out, uint64_t out_bytes) const {
  while (out_bytes != 0) {
    const uint64_t in_piece = offset % kPieceBytes;
    const uint64_t step = std::min(out_bytes, kPieceBytes - in_piece);
    std::memcpy(out, Piece(offset / kPieceBytes) + in_piece, step);
    offset += step;
    out += step;
    out_bytes -= step;
  }
}

std::string_view Chain::PieceAt(uint64_t offset, uint64_t size_bytes) const {
  if (offset >= size_bytes) {
    return {};
  }
  const uint64_t in_piece = offset % kPieceBytes;
  return {Piece(offset / kPieceBytes) + in_piece,
          std::min(kPieceBytes - in_piece, size_bytes - offset)};
}

Chain* ChainSpace::New() {
  void* const memory = slabs_->Allocate(sizeof(Chain));
  if (memory == nullptr) {
    return nullptr;
  }
  return new (memory) Chain(this);
}

uint64_t ChainSpace::RoomBytes(const Chain& chain) {
  if (chain.piece_count_ == 0) {
    return 0;
  }
  return (chain.piece_count_ - 1) * kPieceBytes + chain.last_piece_bytes_ - chain.end_bytes_;
}

bool ChainSpace::CanGrow(const Chain& chain) {
  return chain.piece_count_ == 0 || chain.last_piece_bytes_ == kPieceBytes || chain.IsSole();
}

bool ChainSpace::AddPiece(Chain* chain, uint64_t piece_bytes) {
  KVS_CHECK(chain->piece_count_ < kPieceCountMax, "piece_count=%u", chain->piece_count_);
  char**& table = chain->tables_[chain->piece_count_ / kTablePieces];
  if (table == nullptr) {
    table = static_cast<char**>(slabs_->Allocate(kTableBytes));
    if (table == nullptr) {
      return false;
    }
  }
  char* const piece = static_cast<char*>(slabs_->Allocate(piece_bytes));
  if (piece == nullptr) {
    return false;  // a table without pieces is found and freed by FreeSome
  }
  table[chain->piece_count_ % kTablePieces] = piece;
  ++chain->piece_count_;
  chain->last_piece_bytes_ = static_cast<uint32_t>(piece_bytes);
  return true;
}

bool ChainSpace::EnlargeLastPiece(Chain* chain, uint64_t piece_bytes) {
  KVS_CHECK(chain->IsSole(), "end_bytes=%llu", static_cast<unsigned long long>(chain->end_bytes_));
  char* const larger = static_cast<char*>(slabs_->Allocate(piece_bytes));
  if (larger == nullptr) {
    return false;
  }
  const uint64_t last = chain->piece_count_ - 1;
  char*& place = chain->tables_[last / kTablePieces][last % kTablePieces];
  if (chain->end_bytes_ > last * kPieceBytes) {
    std::memcpy(larger, place, chain->end_bytes_ - last * kPieceBytes);
  }
  slabs_->Free(place, chain->last_piece_bytes_);
  place = larger;
  chain->last_piece_bytes_ = static_cast<uint32_t>(piece_bytes);
  return true;
}

bool ChainSpace::MakeRoom(Chain* chain, uint64_t bytes, bool growing) {
  const uint64_t wanted_end = chain->end_bytes_ + bytes;
  KVS_CHECK(wanted_end <= kValueBytesMax, "wanted_end=%llu",
            static_cast<unsigned long long>(wanted_end));
  if (RoomBytes(*chain) >= bytes) {
    return true;
  }
  const auto piece_bytes_at = [&](uint64_t index) {
    const uint64_t rest = wanted_end - index * kPieceBytes;
    return growing || rest >= kPieceBytes ? kPieceBytes : rest;
  };
  if (chain->piece_count_ != 0 && chain->last_piece_bytes_ != kPieceBytes &&
      !EnlargeLastPiece(chain, piece_bytes_at(chain->piece_count_ - 1))) {
    return false;
  }
  while (chain->piece_count_ * kPieceBytes < wanted_end && RoomBytes(*chain) < bytes) {
    if (!AddPiece(chain, piece_bytes_at(chain->piece_count_))) {
      return false;
    }
  }
  return true;
}

void ChainSpace::Overwrite(Chain* chain, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t in_piece = offset % kPieceBytes;
    const uint64_t step = std::min<uint64_t>(bytes.size(), kPieceBytes - in_piece);
    std::memcpy(chain->Piece(offset / kPieceBytes) + in_piece, bytes.data(), step);
    offset += step;
    bytes.remove_prefix(step);
  }
}

void ChainSpace::Append(Chain* chain, std::string_view bytes) {
  Overwrite(chain, chain->end_bytes_, bytes);
  chain->end_bytes_ += bytes.size();
}

void ChainSpace::AppendZeros(Chain* chain, uint64_t count) {
  while (count != 0) {
    const uint64_t in_piece = chain->end_bytes_ % kPieceBytes;
    const uint64_t step = std::min(count, kPieceBytes - in_piece);
    std::memset(chain->Piece(chain->end_bytes_ / kPieceBytes) + in_piece, 0, step);
    chain->end_bytes_ += step;
    count -= step;
  }
}

void ChainSpace::Truncate(Chain* chain, uint64_t size_bytes) {
  KVS_CHECK(chain->IsSole() && size_bytes <= chain->end_bytes_, "size_bytes=%llu end_bytes=%llu",
            static_cast<unsigned long long>(size_bytes),
            static_cast<unsigned long long>(chain->end_bytes_));
  chain->end_bytes_ = size_bytes;
}

Chain* ChainSpace::Copy(const Chain& from, uint64_t size_bytes, uint64_t room_bytes) {
  Chain* const copy = New();
  if (copy == nullptr || !MakeRoom(copy, room_bytes, false)) {
    if (copy != nullptr) {
      copy->Release();
    }
    return nullptr;
  }
  for (uint64_t offset = 0; offset < size_bytes;) {
    const std::string_view piece = from.PieceAt(offset, size_bytes);
    Append(copy, piece);
    offset += piece.size();
  }
  return copy;
}

bool ChainSpace::FreeSome(Chain* chain, uint32_t* budget) {
  while (chain->piece_count_ != 0) {
    if (*budget == 0) {
      return false;
    }
    --*budget;
    const uint32_t last = --chain->piece_count_;
    slabs_->Free(chain->tables_[last / kTablePieces][last % kTablePieces],
                 chain->last_piece_bytes_);
    chain->last_piece_bytes_ = kPieceBytes;
  }
  for (char** table : chain->tables_) {
    if (table != nullptr) {
      slabs_->Free(table, kTableBytes);
    }
  }
  slabs_->Free(chain, sizeof(Chain));
  return true;
}

bool ChainSpace::Drain(uint32_t budget) {
  for (;;) {
    if (draining_ == nullptr) {
      if (released_.load(std::memory_order_relaxed) == nullptr) {
        return false;
      }
      draining_ = released_.exchange(nullptr, std::memory_order_acquire);  // partner: Release()
    }
    if (budget == 0) {
      return true;
    }
    --budget;
    Chain* const next = draining_->next_released_;
    if (!FreeSome(draining_, &budget)) {
      return true;
    }
    draining_ = next;
  }
}

ChainRef::ChainRef(const ChainRef& other) : chain_(other.chain_), size_bytes_(other.size_bytes_) {
  if (chain_ != nullptr) {
    chain_->Retain();
  }
}

ChainRef::~ChainRef() {
  if (chain_ != nullptr) {
    chain_->Release();
  }
}

std::string_view ChainRef::PieceAt(uint64_t offset) const {
  return chain_ == nullptr ? std::string_view() : chain_->PieceAt(offset, size_bytes_);
}

void ChainRef::CopyTo(uint64_t offset, char* out, uint64_t out_bytes) const {
  KVS_CHECK(offset <= size_bytes_ && out_bytes <= size_bytes_ - offset,
            "offset=%llu out_bytes=%llu size_bytes=%llu", static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(out_bytes),
            static_cast<unsigned long long>(size_bytes_));
  if (out_bytes != 0) {
    chain_->Read(offset, out, out_bytes);
  }
}

OpResult ChainBuilder::Write(std::string_view bytes) {
  if (bytes.size() > total_bytes_ - written_bytes_) {
    return OpResult::kTooLarge;
  }
  Chain* const chain = ChainSpace::ChainOf(chain_);
  if (chain == nullptr) {
    return OpResult::kOutOfMemory;
  }
  // Whole pieces are made as bytes arrive, never from a declared length; the last one fits exactly.
  const uint64_t end = written_bytes_ + bytes.size();
  const uint64_t piece_end = (end + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  if (!chain->space()->MakeRoom(chain, std::min(piece_end, total_bytes_) - written_bytes_, false)) {
    return OpResult::kOutOfMemory;
  }
  ChainSpace::Append(chain, bytes);
  written_bytes_ = end;
  return OpResult::kOk;
}

ChainRef ChainBuilder::Finish() {
  KVS_CHECK(written_bytes_ == total_bytes_, "written_bytes=%llu total_bytes=%llu",
            static_cast<unsigned long long>(written_bytes_),
            static_cast<unsigned long long>(total_bytes_));
  Chain* const chain = ChainSpace::TakeChain(&chain_);
  return chain == nullptr ? ChainRef() : ChainRef(chain, total_bytes_);
}

}  // namespace kvstored::store
