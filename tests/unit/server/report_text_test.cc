#include "server/report_text.h"

#include <gtest/gtest.h>

namespace kvstored::server {
namespace {

using replication::ReplicaStatus;
using replication::StreamState;

ReplicaStatus Replica(StreamState state) {
  ReplicaStatus replica;
  replica.address = "10.0.0.2:7480";
  replica.connected = true;
  replica.state = state;
  return replica;
}

TEST(ReportText, BytesAsRedisWordsThem) {
  EXPECT_EQ(HumanBytes(64), "64B");
  EXPECT_EQ(HumanBytes(1536 << 10), "1.50M");
}

TEST(ReportText, WhoIsOnItsWayAndWhatIsLeft) {
  constexpr uint64_t kDataBytes = uint64_t{3} << 30;
  EXPECT_EQ(OnTheirWay({}, kDataBytes), "");
  ReplicaStatus gone = Replica(StreamState::kConnecting);
  gone.connected = false;
  ReplicaStatus copying = Replica(StreamState::kFullSync);
  copying.full_sync_items_bytes = uint64_t{512} << 20;
  ReplicaStatus reading = Replica(StreamState::kCatchUp);
  reading.lag_records = 1234;
  ReplicaStatus streaming = Replica(StreamState::kStreaming);
  EXPECT_EQ(OnTheirWay({gone, streaming}, kDataBytes), "");
  EXPECT_EQ(OnTheirWay({Replica(StreamState::kConnecting)}, kDataBytes),
            "; replica 10.0.0.2:7480 is on its way: connecting");
  EXPECT_EQ(OnTheirWay({copying, reading}, kDataBytes),
            "; replica 10.0.0.2:7480 is on its way: full_sync, 512.00M of about 3.00G"
            "; replica 10.0.0.2:7480 is on its way: catch_up, 1234 records left");
  streaming.disk_full = true;
  EXPECT_EQ(OnTheirWay({streaming}, kDataBytes), "; the disk of replica 10.0.0.2:7480 is full");
}

}  // namespace
}  // namespace kvstored::server
