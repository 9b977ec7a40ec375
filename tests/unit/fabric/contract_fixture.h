// What the tests of the contract of kvstored/fabric.h share; each runs on every fabric.
#pragma once

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <string_view>

#include "tests/unit/fabric/sim_harness.h"
#include "tests/unit/fabric/tcp_harness.h"

namespace kvstored::fabric {

template <typename H>
class FabricContract : public ::testing::Test {
 protected:
  OpResult Write(Node* from, LaneId lane, RingKey ring, uint64_t offset, std::string_view bytes,
                 uint32_t immediate, uint64_t wr_id) {
    const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    return from->fabric->PostWrite(from->link, lane, ring, offset, {&piece, 1}, immediate, wr_id);
  }
  Node& server() {
    return harness_.server;
  }
  Node& client() {
    return harness_.client;
  }

  RingMemory server_ring_{1 << 16};
  RingMemory client_ring_{1 << 16};
  H harness_;
};

using Harnesses = ::testing::Types<SimHarness, TcpHarness>;

}  // namespace kvstored::fabric
