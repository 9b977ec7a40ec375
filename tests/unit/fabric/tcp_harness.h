#pragma once

#include "fabric/tcp/tcp_fabric.h"
#include "tests/sim/sim_clock.h"
#include "tests/unit/fabric/harness.h"

namespace kvstored::fabric {

// Over loopback, both nodes on the test's thread. The clock stands still: no time-out of the fabric
// fires unless a test moves it.
class TcpHarness final : public Harness {
 public:
  explicit TcpHarness(const TcpOptions& options_arg = TcpOptions()) : options(options_arg) {
    server.fabric = std::make_unique<TcpFabric>(options, &clock);
    client.fabric = std::make_unique<TcpFabric>(options, &clock);
  }

  void Step() override {
    const bool server_moved = server.fabric->Poll(0, &server.told);
    const bool client_moved = client.fabric->Poll(0, &client.told);
    if (!server_moved && !client_moved) {
      // Loopback delivers in the kernel's own time; whoever is told first ends the wait.
      server.fabric->Poll(200, &server.told);
    }
  }
  void Restart(Node* node) override {
    node->fabric = std::make_unique<TcpFabric>(options, &clock);
    node->told = Recorder();
    if (node == &server) {
      address.clear();
    }
  }
  TcpFabric& tcp(Node* node) {
    return static_cast<TcpFabric&>(*node->fabric);
  }

  sim::SimClock clock;
  const TcpOptions options;
};

}  // namespace kvstored::fabric
