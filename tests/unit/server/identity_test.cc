// A damaged data set that is set aside: whatever moment a crash hits, the node keeps the old set
// under its name or under the damaged one, never both half, and may not be promoted without a whole
// one.
#include "server/identity.h"

#include <gtest/gtest.h>

#include "tests/sim/sim_nvm.h"

namespace kvstored::server {
namespace {

constexpr char kBoot[] = "boot";

Config ReplicaConfig() {
  Config config;
  config.server.shards = 2;
  config.replication.primary = "127.0.0.1:1";
  return config;
}

absl::StatusOr<std::unique_ptr<Identity>> Load(NvmDevice* device) {
  base::Random random(7);
  return Identity::Load(device, ReplicaConfig(), &random, kBoot);
}

replication::NodeFacts Primary() {
  replication::NodeFacts primary;
  primary.data_set_id = {{1}};
  primary.data_seed = {{2}};
  primary.shard_count = 2;
  return primary;
}

// A replica with data set "set-1" and the right to be promoted.
std::unique_ptr<Identity> Promotable(NvmDevice* device) {
  auto identity = Load(device);
  EXPECT_TRUE(identity.ok()) << identity.status();
  EXPECT_TRUE((*identity)->AdoptDataSet(Primary()).ok());
  EXPECT_TRUE((*identity)->Update([](log::Meta* meta) { meta->promotable = true; }).ok());
  return *std::move(identity);
}

bool Has(NvmDevice* device, const std::string& name) {
  const auto names = device->List("");
  return names.ok() && std::find(names->begin(), names->end(), name) != names->end();
}

TEST(IdentityTest, ADamagedDataSetIsKeptUntilThereIsAnother) {
  sim::SimNvmDevice device(1);
  auto identity = Promotable(&device);
  ASSERT_TRUE(Has(&device, "set-1/manifest") || Has(&device, "set-1"));
  const auto kept = identity->SetAsideDataSet();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, "damaged-1");
  EXPECT_FALSE(identity->has_data_set());
  EXPECT_FALSE(identity->meta().promotable);
  EXPECT_TRUE(identity->meta().data_set.empty());
  // It survives the next start, which removes strays, and the set that is adopted then.
  auto next = Load(&device);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE((*next)->has_data_set());
  ASSERT_TRUE((*next)->AdoptDataSet(Primary()).ok());
  EXPECT_EQ((*next)->meta().data_set_directory, "set-2");
  EXPECT_TRUE(Has(&device, "damaged-1"));
  (*next)->RemoveSetAside();
  EXPECT_FALSE(Has(&device, "damaged-1"));
  EXPECT_TRUE(Has(&device, "set-2"));
}

TEST(IdentityTest, ACrashWhileItIsSetAsideLosesNothing) {
  int whole = 0;
  int aside = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    sim::SimNvmDevice device(seed);
    auto identity = Promotable(&device);
    device.CrashAfter(seed % 8);
    (void)identity->SetAsideDataSet();
    device.PowerCut();
    auto next = Load(&device);
    ASSERT_TRUE(next.ok()) << "seed " << seed << ": " << next.status();
    if ((*next)->has_data_set()) {
      ++whole;
      EXPECT_TRUE(Has(&device, "set-1"));
      EXPECT_FALSE(Has(&device, "damaged-1"));
    } else {
      ++aside;
      EXPECT_FALSE((*next)->meta().promotable);
      EXPECT_TRUE(Has(&device, "damaged-1")) << "seed " << seed;
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(aside, 0);
}

}  // namespace
}  // namespace kvstored::server
