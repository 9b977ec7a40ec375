#include "tests/sim/run.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/log.h"
#include "tests/sim/client.h"
#include "tests/sim/history.h"
#include "tests/sim/nemesis.h"

namespace kvstored::sim {
namespace {

constexpr int64_t kStartUs = 60'000'000;     // until the cluster stands for the first time
constexpr int64_t kChaosUs = 120'000'000;    // at most
constexpr int64_t kConvergeUs = 60'000'000;  // after the last fault
constexpr uint64_t kFaultsMin = 5;

ClusterOptions Draw(const RunOptions& options, SimRandom* random) {
  ClusterOptions drawn;
  drawn.seed = random->Next();
  drawn.replicas = random->Chance(0.35) ? 2 : 1;
  const uint32_t shards = random->Chance(0.6) ? 4 : 1;
  drawn.shards = options.shards != 0 ? options.shards : shards;
  const uint32_t threads = random->Chance(0.5) ? 2 : 1;
  drawn.threads = std::min(options.threads != 0 ? options.threads : threads, drawn.shards);
  const uint64_t level = random->Below(10);
  drawn.ack = level < 6 ? AckLevel::kPersisted : level < 9 ? AckLevel::kReceived : AckLevel::kNone;
  drawn.ack_replicas = static_cast<uint32_t>(random->Chance(0.8) ? 1 : random->Below(3));
  drawn.ack_replicas = std::min(drawn.ack_replicas, drawn.replicas);
  if (drawn.ack == AckLevel::kPersisted && random->Chance(0.3)) {
    drawn.sync = LogSync::kInterval;  // the level asks for each round all the same
  }
  drawn.retain_bytes = random->Chance(0.5) ? 0 : uint64_t{4} << 20;
  drawn.ring_bytes = random->Chance(0.5) ? size_t{256} << 10 : size_t{1} << 20;
  drawn.lane_credits = random->Chance(0.5) ? 8 : 64;
  drawn.rejoin_on_damage = options.seed % 2 == 0;
  drawn.plants = options.plants;
  return drawn;
}

class Simulation {
 public:
  explicit Simulation(const RunOptions& options)
      : options_(options), random_(options.seed * 0x9e3779b97f4a7c15 + 1) {
    const ClusterOptions drawn = Draw(options, &random_);
    result_.shape = std::to_string(drawn.replicas) + " replicas, " + std::to_string(drawn.shards) +
                    " shards, " + std::to_string(drawn.threads) + " threads, ack " +
                    std::to_string(static_cast<int>(drawn.ack)) + "/" +
                    std::to_string(drawn.ack_replicas);
    cluster_ = std::make_unique<Cluster>(drawn);
    const uint64_t client_count = 2 + random_.Below(4);
    for (uint64_t i = 0; i < client_count; ++i) {
      clients_.push_back(std::make_unique<Client>(cluster_.get(), &history_, random_.Next(),
                                                  "c" + std::to_string(i)));
    }
  }

  RunResult Run() {
    const bool ran = StandUp() && Chaos() && Converge() && ReadBack();
    if (ran) {
      Note(history_.Check());
    }
    result_.counters = cluster_->Counters();
    for (const char* never : {"net_rnr", "net_ring_bounds", "net_stale_ring_key"}) {
      if (result_.counters[never] != 0) {
        Note(std::string("the fabric refused a write: ") + never);  // credits and keys exclude that
      }
    }
    result_.trace_hash = cluster_->trace_hash();
    result_.requests = Requests();
    result_.acknowledged = history_.acknowledged_count();
    result_.simulated_us = cluster_->clock().now_us();
    return result_;
  }

 private:
  uint64_t Requests() const {
    uint64_t count = 0;
    for (const auto& client : clients_) {
      count += client->request_count();
    }
    return count;
  }

  void Note(const std::string& error) {
    if (result_.error.empty()) {
      result_.error = error;
    }
  }

  bool Step(bool may_send) {
    ++result_.steps;
    cluster_->Step();
    if (random_.Below(3) == 0) {
      clients_[random_.Below(clients_.size())]->Step(may_send);
    }
    Note(cluster_->error());
    Note(history_.error());
    return result_.error.empty();
  }

  bool StandUp() {
    std::string why;
    const int64_t until_us = cluster_->clock().now_us() + kStartUs;
    while (!cluster_->Converged(&why)) {
      if (cluster_->clock().now_us() > until_us) {
        Note("the cluster never stood: " + why);
        return false;
      }
      for (int i = 0; i < 50; ++i) {
        if (!Step(false)) {
          return false;
        }
      }
    }
    base::LogInfo("--- the cluster stands: " + result_.shape);
    return true;
  }

  bool Chaos() {
    nemesis_ = std::make_unique<Nemesis>(cluster_.get(), random_.Next());
    nemesis_->SetPeriodUs(int64_t{20'000} << random_.Below(5));
    const int64_t until_us = cluster_->clock().now_us() + kChaosUs;
    while (Requests() < options_.requests_min || nemesis_->fault_count() < kFaultsMin ||
           history_.acknowledged_count() < 100) {
      nemesis_->Step();
      if (!Step(true)) {
        return false;
      }
      if (cluster_->clock().now_us() > until_us) {
        cluster_->Count("chaos_cut_short");
        break;
      }
    }
    result_.faults = nemesis_->fault_count();
    return true;
  }

  // What is alive must become equal, in bounded time, without any luck.
  bool Converge() {
    base::LogInfo("--- calm");
    nemesis_->Calm();
    const int64_t until_us = cluster_->clock().now_us() + kConvergeUs;
    std::string why;
    while (true) {
      bool idle = true;
      for (const auto& client : clients_) {
        idle = idle && client->is_idle();
      }
      if (idle && cluster_->Converged(&why)) {
        return result_.error.empty();
      }
      if (cluster_->clock().now_us() > until_us) {
        Note("no convergence: " + (idle ? why : "requests without an answer"));
        return false;
      }
      nemesis_->Repair();
      for (int i = 0; i < 50; ++i) {
        if (!Step(false)) {
          return false;
        }
      }
    }
  }

  bool ReadBack() {
    Client reader(cluster_.get(), &history_, 1, "reader");
    const int64_t until_us = cluster_->clock().now_us() + 10'000'000;
    const uint64_t wanted = 1;
    while (reader.request_count() < wanted || !reader.is_idle()) {
      if (reader.request_count() < wanted) {
        reader.ReadAll();
      }
      reader.Step(false);
      if (!Step(false)) {
        return false;
      }
      if (cluster_->clock().now_us() > until_us) {
        Note("the last reads had no answer");
        return false;
      }
    }
    return true;
  }

  const RunOptions options_;
  SimRandom random_;
  History history_;
  RunResult result_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Nemesis> nemesis_;
};

}  // namespace

RunResult Run(const RunOptions& options) {
  Simulation simulation(options);
  return simulation.Run();
}

}  // namespace kvstored::sim
