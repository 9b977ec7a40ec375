// A storage device in memory with the faults of real ones, deterministic from a seed.
//
// It loses nothing that the NvmDevice contract calls persistent, and may lose or tear everything
// else: at a power cut each write that was not persisted is kept, lost, or torn (at a byte, or as
// any subset of its 512-byte sectors), each independently of the others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "kvstored/nvm_device.h"

namespace kvstored::sim {

struct SimNvmCounters {
  uint64_t power_cuts = 0;
  uint64_t lost_writes = 0;
  uint64_t torn_writes = 0;
  uint64_t kept_writes = 0;
  uint64_t io_errors = 0;
  uint64_t no_space_errors = 0;
  uint64_t flipped_bits = 0;
  uint64_t writes = 0;
  uint64_t persists = 0;
};

// Thread-safe. Handles of files opened before a power cut fail (kUnavailable) ever after.
class SimNvmDevice : public NvmDevice {
 public:
  explicit SimNvmDevice(uint64_t seed) : random_(seed) {
  }

  NvmKind kind() const override {
    return NvmKind::kDisk;
  }
  absl::StatusOr<std::unique_ptr<NvmFile>> Create(const std::string& name,
                                                  uint64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<NvmFile>> Open(const std::string& name) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& name) override;
  absl::Status MakeDirectory(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::StatusOr<uint64_t> FreeBytes() override;
  std::string Describe() const override {
    return "sim";
  }

  // --- Faults (sim_nvm_faults.cc) ---

  // The machine loses power and comes back: what was not persisted is decided by the dice.
  void PowerCut();
  // The process dies, the machine lives: everything written stays, open handles fail.
  void ProcessCrash();
  // After `count` more changing calls (0: the next one) the device answers kUnavailable until the
  // next PowerCut; the call in which that happens is done in part or not at all.
  void CrashAfter(uint64_t count);
  bool crashed() const;
  // The next Persist (or Write) fails with kDataLoss; what it should have persisted may be lost at
  // the next power cut although reads still show it.
  void FailNextPersist();
  void FailNextWrite();
  // The read after `count` more fails with kDataLoss, as a failing device has it; what is stored is
  // whole.
  void FailReadAfter(uint64_t count);
  void SetCapacity(uint64_t capacity_bytes);
  uint64_t UsedBytesNow() const;
  // Takes back what was armed and has not struck yet.
  void Disarm();
  // Flips a bit of what the device holds.
  void FlipBit(const std::string& name, uint64_t offset, uint32_t bit);
  // Flips a random bit of a random non-empty file whose name contains `part`. False: there is none.
  bool FlipRandomBit(const std::string& part);

  // --- For checks ---
  std::map<std::string, std::vector<uint8_t>> Contents() const;
  void SetContents(const std::string& name, std::vector<uint8_t> bytes);
  SimNvmCounters counters() const;

 private:
  friend class SimNvmFile;
  struct PendingWrite {
    uint64_t offset = 0;
    std::vector<uint8_t> bytes;
  };
  struct File {
    std::vector<uint8_t> durable;
    std::vector<uint8_t> view;  // durable with the pending writes applied
    std::vector<PendingWrite> pending;
  };

  // Writes into a file's bytes, which grow as far as it takes.
  static void Apply(uint64_t offset, const uint8_t* bytes, size_t size_bytes,
                    std::vector<uint8_t>* to);

  // All with mutex_ held.
  absl::Status CheckAlive(uint64_t generation) const;
  bool CrashNow();
  bool ReadFailsNow();
  absl::Status RenameDirectory(const std::string& from, const std::string& to);
  void PersistFile(File* file);
  void Settle(File* file);
  uint64_t UsedBytes() const;
  absl::Status NoSpace();

  mutable std::mutex mutex_;
  base::Random random_;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::set<std::string> directories_;
  uint64_t capacity_bytes_ = UINT64_MAX / 2;
  uint64_t generation_ = 0;
  bool crash_armed_ = false;
  uint64_t calls_to_crash_ = 0;
  bool crashed_ = false;
  bool fail_next_persist_ = false;
  bool fail_next_write_ = false;
  std::optional<uint64_t> reads_to_failure_;
  SimNvmCounters counters_;
};

}  // namespace kvstored::sim
