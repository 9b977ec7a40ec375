#pragma once

#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_fabric.h"
#include "tests/unit/fabric/harness.h"

namespace kvstored::fabric {

class SimHarness final : public Harness {
 public:
  explicit SimHarness(uint64_t seed = 1) : network(seed, &clock) {
    server.fabric = std::make_unique<sim::SimFabric>(&network, "server");
    client.fabric = std::make_unique<sim::SimFabric>(&network, "client");
  }
  ~SimHarness() override {
    server.fabric.reset();  // the network outlives its fabrics
    client.fabric.reset();
  }

  void Step() override {
    const bool server_moved = server.fabric->Poll(0, &server.told);
    const bool client_moved = client.fabric->Poll(0, &client.told);
    if (!server_moved && !client_moved && network.NextEventUs() != INT64_MAX) {
      clock.AdvanceTo(network.NextEventUs());
    }
  }
  void Restart(Node* node) override {
    const bool is_server = node == &server;
    node->fabric.reset();
    node->fabric = std::make_unique<sim::SimFabric>(&network, is_server ? "server" : "client");
    node->told = Recorder();
    if (is_server) {
      address.clear();
    }
  }

  sim::SimClock clock;
  sim::SimNetwork network;
};

}  // namespace kvstored::fabric
