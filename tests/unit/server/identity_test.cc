// A damaged data set that is set aside: whatever moment a crash hits, the node keeps the old set
// under its name or under the damaged one, never half of it, and may not be promoted without one.
#include "server/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "log/damage.h"
#include "tests/sim/sim_nvm.h"

namespace kvstored::server {
namespace {

const absl::Status kFound = log::DamageError("a bad frame");

Config ReplicaConfig(const std::string& on_damage) {
  Config config = DefaultConfig();
  config.server.shards = 2;
  config.replication.primary = "127.0.0.1:1";
  config.recovery.on_damage = on_damage;
  return config;
}

absl::StatusOr<std::unique_ptr<Identity>> LoadIdentity(NvmDevice* device,
                                                       const std::string& on_damage = "rejoin") {
  base::Random random(7);
  return Identity::Load(device, ReplicaConfig(on_damage), &random, "boot");
}

replication::NodeFacts PrimaryFacts() {
  replication::NodeFacts primary;
  primary.data_set_id = {{1}};
  primary.data_seed = {{2}};
  primary.shard_count = 2;
  return primary;
}

// A replica with data set "set-1" and the right to be promoted.
std::unique_ptr<Identity> PromotableReplica(NvmDevice* device) {
  auto identity = LoadIdentity(device);
  EXPECT_TRUE(identity.ok()) << identity.status();
  EXPECT_TRUE((*identity)->AdoptDataSet(PrimaryFacts()).ok());
  EXPECT_TRUE((*identity)->Update([](log::Meta* meta) { meta->promotable = true; }).ok());
  return *std::move(identity);
}

bool HasName(NvmDevice* device, const std::string& name) {
  const auto names = device->List("");
  return names.ok() && std::find(names->begin(), names->end(), name) != names->end();
}

TEST(Identity, ADamagedDataSetIsKeptAndNeverDeleted) {
  sim::SimNvmDevice device(1);
  auto identity = PromotableReplica(&device);
  ASSERT_TRUE(identity->SetAsideDataSet(kFound).ok());
  EXPECT_FALSE(identity->has_data_set());
  EXPECT_FALSE(identity->meta().promotable);
  EXPECT_TRUE(identity->meta().data_set.empty());
  // Two starts, of which each removes strays, and two more sets that turn out to be damaged.
  for (int n = 2; n <= 3; ++n) {
    auto next = LoadIdentity(&device);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_FALSE((*next)->has_data_set());
    ASSERT_TRUE((*next)->AdoptDataSet(PrimaryFacts()).ok());
    EXPECT_EQ((*next)->meta().data_set_directory, absl::StrFormat("set-%d", n));
    ASSERT_TRUE((*next)->SetAsideDataSet(kFound).ok());
  }
  EXPECT_TRUE(HasName(&device, "set-1.damaged-1"));
  EXPECT_TRUE(HasName(&device, "set-2.damaged-1"));
  EXPECT_TRUE(HasName(&device, "set-3.damaged-1"));
  EXPECT_EQ(device.Contents().count("set-1.damaged-1/manifest"), 1u);
}

TEST(Identity, ACrashWhileItIsSetAsideLosesNothing) {
  int whole = 0;
  int aside = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    sim::SimNvmDevice device(seed);
    auto identity = PromotableReplica(&device);
    device.CrashAfter(seed % 12);
    (void)identity->SetAsideDataSet(kFound);
    device.PowerCut();
    auto next = LoadIdentity(&device);
    ASSERT_TRUE(next.ok()) << "seed " << seed << ": " << next.status();
    if ((*next)->has_data_set()) {
      ++whole;
      EXPECT_EQ(device.Contents().count("set-1/manifest"), 1u) << "seed " << seed;
      EXPECT_FALSE(HasName(&device, "set-1.damaged-1"));
    } else {
      ++aside;
      EXPECT_FALSE((*next)->meta().promotable);
      EXPECT_EQ(device.Contents().count("set-1.damaged-1/manifest"), 1u) << "seed " << seed;
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(aside, 0);
}

TEST(Identity, AStartWithoutMetaRemovesNoDataSet) {
  sim::SimNvmDevice device(1);
  PromotableReplica(&device);
  ASSERT_TRUE(device.Create("set-1/log/0000000001.seg", 4096).ok());
  ASSERT_TRUE(device.Remove(log::kMetaName).ok());
  for (int start = 0; start < 2; ++start) {
    const absl::Status refused = LoadIdentity(&device).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("meta is absent, but set-1"));
  }
  EXPECT_TRUE(HasName(&device, "set-1"));
  // A first start that was cut short left nothing but directories.
  ASSERT_TRUE(device.Remove("set-1/log/0000000001.seg").ok());
  EXPECT_TRUE(LoadIdentity(&device).ok());
  EXPECT_FALSE(HasName(&device, "set-1"));
}

TEST(Identity, WhatAnOperatorPutThereStays) {
  sim::SimNvmDevice device(1);
  PromotableReplica(&device);
  for (const char* name : {"set-1.bak", "set-1-old", "set-01", "set-2", "backup"}) {
    ASSERT_TRUE(device.MakeDirectory(name).ok());
  }
  ASSERT_TRUE(LoadIdentity(&device).ok());
  for (const char* name : {"set-1", "set-1.bak", "set-1-old", "set-01", "backup"}) {
    EXPECT_TRUE(HasName(&device, name)) << name;
  }
  EXPECT_FALSE(HasName(&device, "set-2")) << "what this node makes and no longer needs";
}

TEST(Identity, WhoMayRejoin) {
  sim::SimNvmDevice device(1);
  auto identity = PromotableReplica(&device);
  const Config rejoin = ReplicaConfig("rejoin");
  EXPECT_TRUE(identity->MayRejoin(rejoin, kFound));
  EXPECT_FALSE(identity->MayRejoin(ReplicaConfig("refuse"), kFound));
  EXPECT_FALSE(identity->MayRejoin(DefaultConfig(), kFound));
  EXPECT_FALSE(identity->MayRejoin(rejoin, absl::DataLossError("reading: Input/output error")));
  ASSERT_TRUE(identity->Update([](log::Meta* meta) { meta->primary_address.clear(); }).ok());
  EXPECT_FALSE(identity->MayRejoin(rejoin, kFound));  // from whom?
  ASSERT_TRUE(identity
                  ->Update([](log::Meta* meta) {
                    meta->primary_address = "127.0.0.1:1";
                    meta->role = Role::kPrimary;
                  })
                  .ok());
  EXPECT_FALSE(identity->MayRejoin(rejoin, kFound));
}

TEST(Identity, ADamagedManifestIsSetAsideAndAnUnreadableOneIsNot) {
  sim::SimNvmDevice device(1);
  PromotableReplica(&device).reset();
  for (uint64_t read = 0; read < 2; ++read) {  // meta, manifest
    device.FailReadAfter(read);
    const auto failed = LoadIdentity(&device);
    EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(HasName(&device, "set-1"));
  }
  const std::string manifest = "set-1/manifest";
  device.FlipBit(manifest, device.Contents()[manifest].size() / 2, 1);
  const auto refused = LoadIdentity(&device, "refuse");
  EXPECT_TRUE(log::IsDamage(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("recovery.on_damage"));
  EXPECT_TRUE(HasName(&device, "set-1"));
  const auto rejoins = LoadIdentity(&device);
  ASSERT_TRUE(rejoins.ok()) << rejoins.status();
  EXPECT_FALSE((*rejoins)->has_data_set());
  EXPECT_TRUE(HasName(&device, "set-1.damaged-1"));
}

TEST(Identity, AnAbsentManifestIsDamageAndAnAbsentDataSetIsNamed) {
  sim::SimNvmDevice device(1);
  PromotableReplica(&device).reset();
  ASSERT_TRUE(device.Remove("set-1/manifest").ok());
  const absl::Status refused = LoadIdentity(&device, "refuse").status();
  EXPECT_TRUE(log::IsDamage(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("/set-1/manifest is absent; restore it"),
                             testing::HasSubstr("recovery.on_damage")));
  ASSERT_TRUE(device.Remove("set-1").ok());
  for (const char* on_damage : {"refuse", "rejoin"}) {
    const absl::Status gone = LoadIdentity(&device, on_damage).status();
    EXPECT_EQ(gone.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(gone.message()),
                testing::HasSubstr("/set-1 is absent, and meta names it"));
  }
}

TEST(Identity, MetaAndManifestOfDifferentDataSetsAreRefused) {
  sim::SimNvmDevice device(1);
  PromotableReplica(&device).reset();
  auto manifest = log::LoadManifest(&device, "set-1");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->data_set.bytes[15] = 9;
  ASSERT_TRUE(log::SaveManifest(&device, "set-1", *manifest).ok());
  const absl::Status refused = LoadIdentity(&device).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refused.message()),
      testing::ContainsRegex("meta names data set 01.*set-1/manifest is of data set 01.*09"));
  EXPECT_TRUE(HasName(&device, "set-1")) << "nothing is set aside for that";
}

}  // namespace
}  // namespace kvstored::server
