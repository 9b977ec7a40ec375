// Client-side caching (CLIENT TRACKING): who was told which key, and who must hear that it changed.
//
// A read is remembered on the thread of the key's shard, before the handler runs, so that no change
// falls between. A change is noted there too; at the end of the tick the notes go to the clients'
// threads, where each push message lines up behind the replies that its connection has under way: a
// client never hears of a change before the reply that it makes stale.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "base/random.h"
#include "base/task.h"
#include "kvstored/types.h"
#include "metrics/slot.h"
#include "shard/change_listener.h"

namespace kvstored::command {

class FrontThread;
class Session;

// What CLIENT TRACKING ON said.
struct TrackingOptions {
  bool broadcast = false;  // BCAST: of all keys with one of the prefixes
  bool opt_in = false;
  bool opt_out = false;
  bool no_loop = false;
  uint64_t redirect = 0;  // client that is told instead; 0: the client itself
  uint32_t redirect_thread = 0;
};

// A session that tracks.
struct TrackingState {
  TrackingOptions options;
  std::set<std::string> prefixes;
  bool caching = false;          // CLIENT CACHING: the next command is an exception
  bool broken_redirect = false;  // the client to be told is gone
  // Are the keys of the next command remembered?
  bool RemembersReads() const {
    return !options.broadcast && (options.opt_in ? caching : !(options.opt_out && caching));
  }
};

// Shared by all threads.
struct TrackingShared {
  std::atomic<uint32_t> clients{0};           // that track, or are about to
  std::atomic<uint32_t> broadcasts{0};        // of them with BCAST
  std::atomic<uint64_t> keys_max{1'000'000};  // tracking-table-max-keys; 0: no limit
};

// Thread: its FrontThread's.
class Tracking final : public shard::ChangeListener {
 public:
  explicit Tracking(FrontThread* front);

  // --- On the threads of shards. ---
  // Somebody tracks: changes and reads are noted.
  bool is_on() const {
    return is_on_;
  }
  // A client is about to track: from here on nothing of this thread's shards is missed.
  void TurnOn();
  void OnChange(ShardId shard, std::string_view key) override;
  void OnFlush(ShardId shard) override;

  // --- On the clients' threads. ---
  void Add(Session* session);
  void Remove(Session* session);
  // A push for `session` whose turn has come goes on to the client that is told instead.
  void Forward(const Session& session, std::string keys);

  // At the end of the tick: what was noted goes to the clients' threads.
  void OnTick();
  bool has_notes() const {
    return has_notes_;
  }

  metrics::Gauge key_count;     // remembered
  metrics::Gauge reader_count;  // of all of them
  metrics::Gauge prefix_count;  // of this thread's clients

 private:
  friend class TrackedRun;
  struct Client {
    uint64_t id = 0;
    uint32_t thread = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const {
      return absl::Hash<std::string_view>()(key);
    }
  };
  using Table = std::unordered_map<std::string, std::vector<Client>, Hash, std::equal_to<>>;
  // For one client; id 0: for all that track, every key is gone.
  struct Notice {
    uint64_t client = 0;
    uint64_t writer = 0;
    std::string key;
  };
  // Keys in order, each with the client that changed it first.
  using Changes = std::vector<std::pair<std::string, uint64_t>>;
  // What one thread tells another.
  struct Message : base::Task {
    Tracking* to = nullptr;
    std::vector<Notice> notices;
    std::shared_ptr<const Changes> changes;
  };
  struct Forwarded : base::Task {
    FrontThread* to = nullptr;
    uint64_t target = 0;
    uint32_t from_thread = 0;
    uint64_t from = 0;
    std::string keys;
  };

  Table& TableOf(ShardId shard);
  void Remember(ShardId shard, std::string_view key, Client client);
  void Invalidate(Table* table, Table::iterator entry);
  void EvictOne();
  void TurnOff();
  void Receive(const std::vector<Notice>& notices, const Changes* changes);
  void TellBroadcast(Session* session, const Changes& changes);
  static void ReceiveTask(base::Task* task);
  static void ArriveTask(base::Task* task);
  static void BrokenTask(base::Task* task);

  FrontThread* const front_;
  bool is_on_ = false;
  uint64_t writer_ = 0;        // whose command runs; 0: nobody's
  std::vector<Table> tables_;  // by local shard
  uint64_t keys_ = 0;
  uint64_t readers_ = 0;
  base::Random random_;
  std::vector<std::vector<Notice>> notices_;  // by thread
  std::vector<std::pair<std::string, uint64_t>> changes_;
  bool has_notes_ = false;
  absl::flat_hash_map<uint64_t, Session*> sessions_;  // of this thread that track, by id
};

// A command's run on a shard: names its client, and remembers its keys if the client asked for
// that. Nothing while nobody tracks.
class TrackedRun {
 public:
  TrackedRun(Tracking* tracking, const Session& session) {
    if (tracking->is_on()) [[unlikely]] {
      Begin(tracking, session);
    }
  }
  ~TrackedRun() {
    if (tracking_ != nullptr) [[unlikely]] {
      tracking_->writer_ = 0;
    }
  }
  TrackedRun(const TrackedRun&) = delete;
  TrackedRun& operator=(const TrackedRun&) = delete;
  void Reads(ShardId shard, std::span<const Key> keys) {
    if (tracking_ != nullptr) [[unlikely]] {
      Remember(shard, keys);
    }
  }

 private:
  void Begin(Tracking* tracking, const Session& session);
  void Remember(ShardId shard, std::span<const Key> keys);

  Tracking* tracking_ = nullptr;
  const Session* session_ = nullptr;
};

}  // namespace kvstored::command
