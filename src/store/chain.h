// Chain: a large value as a row of equal pieces, each a slot. Pieces are found by division, through
// two levels of tables, so that a chain grows without moving anything that a reader may look at.
//
// A chain only ever grows at its end, and only by the store's thread. Readers on other threads hold
// a ChainRef, which fixes how far they may look; what lies beyond is written where they never look.
// Bytes inside are overwritten only while the store's item holds the only count.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kvstored/limits.h"
#include "kvstored/op_result.h"
#include "memory/slab.h"
#include "store/item.h"

namespace kvstored::store {

// 56 KiB fills a slab of half a MiB with little left over, with or without the chunk's head in it.
inline constexpr uint64_t kPieceBytes = uint64_t{56} << 10;
inline constexpr uint64_t kTablePieces = 1024;
inline constexpr uint64_t kPieceCountMax = (kValueBytesMax + kPieceBytes - 1) / kPieceBytes;
inline constexpr uint64_t kTableCountMax = (kPieceCountMax + kTablePieces - 1) / kTablePieces;

class Chain {
 public:
  explicit Chain(ChainSpace* space) : space_(space) {
  }

  void Retain() {
    // Relaxed: whoever copies a reference holds one, so the chain cannot go meanwhile.
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  // Any thread.
  void Release();
  // Owner thread: no other reference exists, and none can appear but through ours.
  bool IsSole() const {
    return count_.load(std::memory_order_acquire) == 1;  // partner: the release in Release()
  }

  void Read(uint64_t offset, char* out, uint64_t out_bytes) const;
  // The bytes from offset to the end of its piece, or of `size_bytes`.
  std::string_view PieceAt(uint64_t offset, uint64_t size_bytes) const;

  // Where the next Append goes; owner thread.
  uint64_t end_bytes() const {
    return end_bytes_;
  }
  ChainSpace* space() {
    return space_;
  }

 private:
  friend class ChainSpace;
  char* Piece(uint64_t index) const {
    return tables_[index / kTablePieces][index % kTablePieces];
  }

  std::atomic<uint32_t> count_{1};
  uint32_t piece_count_ = 0;
  uint32_t last_piece_bytes_ = 0;  // room of the last piece; the others have kPieceBytes
  uint64_t end_bytes_ = 0;
  ChainSpace* space_;
  Chain* next_released_ = nullptr;
  std::array<char**, kTableCountMax> tables_{};
};

// Where the chains of one store live and die. Owner thread only, but for Chain::Release().
class ChainSpace {
 public:
  explicit ChainSpace(memory::SlabAllocator* slabs) : slabs_(slabs) {
  }
  ChainSpace(const ChainSpace&) = delete;
  ChainSpace& operator=(const ChainSpace&) = delete;

  // An empty chain with one count, or null.
  Chain* New();
  // Makes room for `bytes` more at the end. The last piece gets just what it needs, unless
  // `growing` says that more will follow. False: no memory; the chain keeps its bytes, and what was
  // added stays as room.
  bool MakeRoom(Chain* chain, uint64_t bytes, bool growing);
  // Bytes that MakeRoom() grants without memory.
  static uint64_t RoomBytes(const Chain& chain);
  // Can MakeRoom() do its work without moving a piece that others look at?
  static bool CanGrow(const Chain& chain);
  // The room must be there.
  static void Append(Chain* chain, std::string_view bytes);
  static void AppendZeros(Chain* chain, uint64_t count);
  // Inside what was appended.
  static void Overwrite(Chain* chain, uint64_t offset, std::string_view bytes);
  // Forgets the bytes from `size_bytes` on; the pieces stay as room. Only of a sole chain.
  static void Truncate(Chain* chain, uint64_t size_bytes);
  // A new chain with a copy of the first size_bytes and room for room_bytes in all; null: no
  // memory.
  Chain* Copy(const Chain& from, uint64_t size_bytes, uint64_t room_bytes);

  // Gives back the slots of released chains, at most about `budget` of them. True: there is more.
  bool Drain(uint32_t budget);
  bool HasReleased() const {
    return draining_ != nullptr || released_.load(std::memory_order_relaxed) != nullptr;
  }

  // The chain of a reference; the count stays with the reference.
  static Chain* ChainOf(const ChainRef& ref) {
    return ref.chain_;
  }
  // Hands the reference's count to the caller.
  static Chain* TakeChain(ChainRef* ref) {
    ref->size_bytes_ = 0;
    return std::exchange(ref->chain_, nullptr);
  }

 private:
  friend class Chain;
  bool AddPiece(Chain* chain, uint64_t piece_bytes);
  bool EnlargeLastPiece(Chain* chain, uint64_t piece_bytes);
  // Frees pieces from the end; true when the chain itself is gone.
  bool FreeSome(Chain* chain, uint32_t* budget);

  memory::SlabAllocator* const slabs_;
  std::atomic<Chain*> released_{nullptr};  // pushed by any thread, taken whole by the owner
  Chain* draining_ = nullptr;
};

}  // namespace kvstored::store
