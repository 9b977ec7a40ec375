// Whole nodes on simulated devices, fabric and clock, stepped by the test in one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/node.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_fabric.h"
#include "tests/sim/sim_nvm.h"
#include "tests/unit/server/small_config.h"

namespace kvstored::server {

struct SimMachine {
  SimMachine(int number, sim::SimClock* sim_clock, sim::SimNetwork* sim_network)
      : name("node" + std::to_string(number)),
        clock(sim_clock),
        network(sim_network),
        device(static_cast<uint64_t>(number) + 1) {
    config.replication.port = static_cast<uint16_t>(7000 + number);
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(config.replication.port);
  }
  log::Meta meta() const {
    return node->core()->identity->meta();
  }

  absl::Status Start() {
    fabric = std::make_unique<sim::SimFabric>(network, name);
    auto made = Node::Create(config,
                             {.clock = clock,
                              .device = &device,
                              .fabric = fabric.get(),
                              .random_seed = ++life * 1000 + config.replication.port,
                              .single_threaded = true},
                             "boot");
    KVS_RETURN_IF_ERROR(made.status());
    node = *std::move(made);
    KVS_RETURN_IF_ERROR(node->Start());
    return node->Load();
  }
  // The process dies; what was written stays.
  void Kill() {
    device.CrashAfter(0);
    if (fabric) {
      fabric->Crash();
    }
    node.reset();
    fabric.reset();
    device.ProcessCrash();
  }
  void Step() {
    for (uint32_t i = 0; i < node->threads()->thread_count(); ++i) {
      node->threads()->thread(i)->Tick(0);
    }
    node->StepLog(0);
    node->StepReplication(0);
    node->StepBackground();
    if (node->restart_wanted()) {
      Kill();
      const absl::Status started = Start();
      EXPECT_TRUE(started.ok()) << name << ": " << started;
    }
  }

  const std::string name;
  sim::SimClock* const clock;
  sim::SimNetwork* const network;
  sim::SimNvmDevice device;
  Config config = SmallConfig();
  std::unique_ptr<sim::SimFabric> fabric;
  std::unique_ptr<Node> node;  // null: down
  uint64_t life = 0;
};

class NodesTest : public testing::Test {
 protected:
  // SimMachine 0 is the primary, the others are its members when this returns.
  void StandUp(int count) {
    for (int i = 0; i < count; ++i) {
      machines_.push_back(std::make_unique<SimMachine>(i, &clock_, &network_));
      SimMachine& machine = *machines_.back();
      machine.config.replication.ack_replicas = static_cast<uint32_t>(count - 1);
      machine.config.replication.primary = i == 0 ? "" : machines_[0]->address();
      const absl::Status started = machine.Start();
      ASSERT_TRUE(started.ok()) << started;
    }
    ASSERT_TRUE(StepUntil([this] {
      return std::all_of(machines_.begin() + 1, machines_.end(),
                         [](const auto& machine) { return machine->meta().promotable; });
    }));
  }
  // Within a minute of the simulated clock.
  bool StepUntil(const std::function<bool()>& done) {
    for (const int64_t until_us = clock_.now_us() + 60'000'000; !done();) {
      if (clock_.now_us() > until_us) {
        return false;
      }
      clock_.Advance(50);
      for (const auto& machine : machines_) {
        if (machine->node != nullptr) {
          machine->Step();
        }
      }
    }
    return true;
  }
  SimMachine& machine(size_t i) {
    return *machines_[i];
  }

  sim::SimClock clock_;
  sim::SimNetwork network_{1, &clock_};
  std::vector<std::unique_ptr<SimMachine>> machines_;
};

}  // namespace kvstored::server
