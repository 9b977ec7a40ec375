#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "server/config_text.h"

namespace kvstored::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string ErrorOf(std::string_view text) {
  Config config = DefaultConfig();
  return std::string(ParseConfig(text, "some.toml", &config).message());
}

std::string ErrorOfSet(const std::string& assignment) {
  Config config = DefaultConfig();
  return std::string(ApplyConfigSet(assignment, &config).message());
}

std::string ErrorOfResolve(const std::vector<std::string>& sets) {
  absl::StatusOr<Config> config = LoadConfig("", sets);
  EXPECT_TRUE(config.ok()) << config.status();
  return std::string(ResolveConfig(Machine{4, uint64_t{8} << 30}, &*config).message());
}

TEST(ConfigReference, IsTheShippedFile) {
  std::ifstream file(std::string(KVS_SOURCE_DIR) + "/config/kvstored.toml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ConfigReference()) << "kvctl config reference > config/kvstored.toml";
}

TEST(ConfigReference, ReadsBackAsTheDefaults) {
  Config config;
  ASSERT_TRUE(ParseConfig(ConfigReference(), "reference", &config).ok());
  const Config defaults = DefaultConfig();
  for (const KeySpec& key : ConfigKeys()) {
    EXPECT_EQ(ConfigValueText(key, config), ConfigValueText(key, defaults)) << key.name;
    EXPECT_EQ(ConfigValueText(key, config), key.standard) << key.name;
  }
}

TEST(ConfigTable, NamesAreUniqueAndTheDesignersKeysExist) {
  std::map<std::string, int> names;
  for (const KeySpec& key : ConfigKeys()) {
    EXPECT_EQ(++names[key.name], 1) << key.name;
  }
  for (const char* name :
       {"server.port", "server.bind", "server.data_dir", "server.threads", "server.shards",
        "memory.pool_size", "memory.max_memory", "memory.eviction", "log.sync", "replication.port",
        "replication.primary", "replication.ack", "replication.ack_replicas",
        "replication.secret_file", "metrics.port", "security.password_file"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(ParseConfig, TakesEachKind) {
  Config config = DefaultConfig();
  const absl::Status status = ParseConfig(R"(
[server]
port = 0
bind = "::1"
timeout = "90s"
[memory]
max_memory = 1073741824
[log]
sync = "interval"
interval = "250ms"
segment_size = "8MiB"
[replication]
primary = "host-a.example:7479"
ack = "none"
)",
                                          "a.toml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.server.port, 0);
  EXPECT_EQ(config.server.bind, "::1");
  EXPECT_EQ(config.server.timeout_us, 90000000u);
  EXPECT_EQ(config.memory.max_memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(config.log.sync, LogSync::kInterval);
  EXPECT_EQ(config.log.interval_us, 250000u);
  EXPECT_EQ(config.log.segment_size_bytes, 8u << 20);
  EXPECT_EQ(config.replication.primary, "host-a.example:7479");
  EXPECT_EQ(config.replication.ack, AckLevel::kNone);
}

TEST(ParseConfig, ErrorsNameFileLineKeyAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("[server]\nport = 70000\n"),
            "some.toml:2: server.port: '70000' is not allowed; it must be a whole number from 0 to "
            "65535");
  EXPECT_EQ(ErrorOf("[log]\n\nsync = \"sometimes\"\n"),
            "some.toml:3: log.sync: 'sometimes' is not allowed; it must be one of \"always\" "
            "\"interval\" \"off\"");
  EXPECT_EQ(ErrorOf("[metrics]\nprot = 1\n"),
            "some.toml:2: unknown key metrics.prot; section [metrics] has: bind, port");
  EXPECT_THAT(ErrorOf("[log]\ndir = \"/mnt\"\n"), HasSubstr("some.toml:2: unknown key log.dir"));
  EXPECT_THAT(ErrorOf("[sever]\nport = 1\n"),
              HasSubstr("some.toml:1: unknown section or key sever"));
  EXPECT_THAT(ErrorOf("port = 1\n"),
              HasSubstr("unknown section or key port; there are the sections "
                        "[server] [memory]"));
  EXPECT_THAT(ErrorOf("[server]\nport = -1\n"), HasSubstr("'-1' is not allowed"));
  EXPECT_THAT(ErrorOf("[server]\nport = \"7379\"\n"), HasSubstr("a TOML string is not allowed"));
  EXPECT_THAT(ErrorOf("[server]\nport = 7.5\n"), HasSubstr("floating-point is not allowed"));
  EXPECT_THAT(ErrorOf("[server]\nport = [1]\n"), HasSubstr("array is not allowed"));
  EXPECT_THAT(ErrorOf("[server]\nbind = \"localhost\"\n"), HasSubstr("an IPv4 or IPv6 address"));
  EXPECT_THAT(ErrorOf("[server]\ndata_dir = \"a\\u0000b\"\n"), HasSubstr("a zero byte"));
  EXPECT_THAT(ErrorOf("[memory]\nmax_memory = \"8 GiB\"\n"), HasSubstr("a size such as"));
  EXPECT_EQ(ErrorOf("[memory]\npool_size = \"1MiB\"\n"),
            "some.toml:2: memory.pool_size: '1MiB' is not allowed; it must be a size such as "
            "\"64MiB\", from 2MiB to 64TiB, or 0");
  EXPECT_EQ(ErrorOf("[memory]\npool_size = 0\n"), "");
  EXPECT_THAT(ErrorOf("[log]\ninterval = \"5\"\n"), HasSubstr("a duration such as"));
  EXPECT_THAT(ErrorOf("[replication]\nprimary = \"host\"\n"), HasSubstr("\"host:port\" or empty"));
  EXPECT_THAT(ErrorOf("[server]\nport = \n"), HasSubstr("some.toml:2: not valid TOML"));
  EXPECT_THAT(ErrorOf("[server]\nport = 1\nport = 2\n"), HasSubstr("not valid TOML"));
}

TEST(ApplyConfigSet, ReadsTomlOrABareString) {
  Config config = DefaultConfig();
  ASSERT_TRUE(ApplyConfigSet("server.port=1234", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("server.data_dir=/tmp/a b", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("replication.ack=received", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("memory.max_memory=\"2GiB\"", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("log.interval=20ms", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("replication.primary=127.0.0.1:7479", &config).ok());
  ASSERT_TRUE(ApplyConfigSet("security.password_file=", &config).ok());
  EXPECT_EQ(config.server.port, 1234);
  EXPECT_EQ(config.server.data_dir, "/tmp/a b");
  EXPECT_EQ(config.replication.ack, AckLevel::kReceived);
  EXPECT_EQ(config.memory.max_memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config.log.interval_us, 20000u);
  EXPECT_EQ(config.replication.primary, "127.0.0.1:7479");
}

TEST(ApplyConfigSet, ErrorsNameTheArgument) {
  EXPECT_THAT(ErrorOfSet("server.port"),
              HasSubstr("--set server.port: it must be section.key=value"));
  EXPECT_THAT(ErrorOfSet("port=1"), HasSubstr("it must be section.key=value"));
  EXPECT_THAT(ErrorOfSet("sever.port=1"), HasSubstr("unknown section"));
  EXPECT_THAT(ErrorOfSet("server.prt=1"), HasSubstr("unknown key server.prt"));
  EXPECT_THAT(ErrorOfSet("server.port=99999"), HasSubstr("a whole number from 0 to 65535"));
  EXPECT_THAT(ErrorOfSet("server.port=1\nthreads = 3"), HasSubstr("server.port"));
}

TEST(LoadConfig, ArgumentsWinOverTheFileAndAMissingFileIsNamed) {
  const std::string path = ::testing::TempDir() + "/config_test.toml";
  std::ofstream(path) << "[server]\nport = 1\nmaxclients = 7\n";
  const absl::StatusOr<Config> config = LoadConfig(path, {"server.port=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server.port, 2);
  EXPECT_EQ(config->server.maxclients, 7u);
  EXPECT_THAT(std::string(LoadConfig("/nowhere/k.toml", {}).status().message()),
              HasSubstr("/nowhere/k.toml"));
}

TEST(ResolveConfig, FillsInTheMachine) {
  Config config = DefaultConfig();
  ASSERT_TRUE(ResolveConfig(Machine{3, uint64_t{8} << 30}, &config).ok());
  EXPECT_EQ(config.server.threads, 2u);  // one CPU is for the log and replication
  EXPECT_EQ(config.server.shards, 2u);
  EXPECT_EQ(config.memory.max_memory_bytes, uint64_t{4} << 30);
}

TEST(ResolveConfig, ThreadsOfItsOwnChoiceAreNeverMoreThanShards) {
  for (const uint32_t shards : {1u, 2u, 4u, 8u}) {
    Config config = DefaultConfig();
    config.server.shards = shards;
    ASSERT_TRUE(ResolveConfig(Machine{4, uint64_t{8} << 30}, &config).ok());
    EXPECT_EQ(config.server.threads, std::min(shards, 3u));
  }
}

TEST(ResolveConfig, ChecksRulesBetweenKeys) {
  EXPECT_EQ(ErrorOfResolve({}), "");
  EXPECT_THAT(ErrorOfResolve({"memory.max_memory=1MiB", "memory.pool_size=2MiB"}),
              HasSubstr("memory.max_memory: 1MiB is too little"));
  EXPECT_THAT(ErrorOfResolve({"memory.max_memory=32MiB", "memory.pool_size=64MiB"}),
              HasSubstr("memory.pool_size: 64MiB is more than memory.max_memory (32MiB)"));
  EXPECT_THAT(ErrorOfResolve({"server.threads=4", "server.shards=2"}),
              HasSubstr("server.threads: 4 is more than server.shards (2)"));
  EXPECT_THAT(ErrorOfResolve({"server.threads=4", "server.shards=2"}), HasSubstr("at most 2"));
  EXPECT_THAT(ErrorOfResolve({"replication.commit_timeout=20s"}), HasSubstr("gate_timeout: 10s"));
  EXPECT_THAT(ErrorOfResolve({"replication.ack=none", "replication.ack_replicas=1"}),
              HasSubstr("no replica acknowledges"));
  EXPECT_THAT(ErrorOfResolve({"server.data_dir="}), HasSubstr("server.data_dir"));
}

TEST(ResolveConfig, APoolThatIsNotSetFollowsMaxMemory) {
  const auto initial_bytes = [](const std::vector<std::string>& sets) {
    absl::StatusOr<Config> config = LoadConfig("", sets);
    EXPECT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(ResolveConfig(Machine{4, uint64_t{8} << 30}, &*config).ok());
    return InitialPoolBytes(*config);
  };
  EXPECT_EQ(initial_bytes({}), uint64_t{64} << 20);
  EXPECT_EQ(initial_bytes({"memory.max_memory=32MiB"}), uint64_t{32} << 20);
  EXPECT_EQ(initial_bytes({"memory.max_memory=1GiB"}), uint64_t{64} << 20);
  EXPECT_EQ(initial_bytes({"memory.max_memory=1GiB", "memory.pool_size=256MiB"}),
            uint64_t{256} << 20);
  // A machine of 50 MiB: half of it is too little, so the least that is allowed counts.
  Config small = DefaultConfig();
  ASSERT_TRUE(ResolveConfig(Machine{1, uint64_t{50} << 20}, &small).ok());
  EXPECT_EQ(InitialPoolBytes(small), uint64_t{32} << 20);
}

// As redis-server 7.0.15 answers, but for the upper bounds.
TEST(ConfigSet, WhatIsSlow) {
  Config config = DefaultConfig();
  std::vector<std::string> changed;
  const auto set = [&](const std::string& name, const std::string& value) {
    return std::string(ConfigSet({{name, value}}, &config, &changed).message());
  };
  const auto get = [&](const char* name) {
    return ConfigGet(config, name).at(0).second;
  };
  EXPECT_EQ(get("slowlog-log-slower-than"), "10000");
  EXPECT_EQ(set("slowlog-log-slower-than", "-1"), "");
  EXPECT_EQ(get("slowlog-log-slower-than"), "-1");
  EXPECT_EQ(get("latency.slowlog_threshold"), "off");
  EXPECT_EQ(set("slowlog-log-slower-than", "0"), "");
  EXPECT_EQ(get("slowlog-log-slower-than"), "0");
  EXPECT_EQ(set("latency-monitor-threshold", "7"), "");
  EXPECT_EQ(get("latency-monitor-threshold"), "7");
  EXPECT_EQ(get("latency.monitor_threshold"), "7ms");
  EXPECT_EQ(set("latency-monitor-threshold", "0"), "");
  EXPECT_EQ(get("latency-monitor-threshold"), "0");
  EXPECT_EQ(set("slowlog-max-len", "5"), "");
  EXPECT_EQ(set("latency-tracking", "NO"), "");
  EXPECT_EQ(get("latency-tracking"), "no");
  EXPECT_EQ(set("latency-tracking-info-percentiles", ""), "");
  EXPECT_EQ(get("latency-tracking-info-percentiles"), "");
  struct Refused {
    const char* name;
    const char* value;
    const char* why;
  };
  for (const Refused& refused : std::initializer_list<Refused>{
           {"slowlog-log-slower-than", "-2",
            "argument must be between -1 and 86400000000 inclusive"},
           {"slowlog-log-slower-than", "x", "argument couldn't be parsed into an integer"},
           {"slowlog-max-len", "-1", "argument must be between 0 and 1000000 inclusive"},
           {"latency-monitor-threshold", "1.5", "argument couldn't be parsed into an integer"},
           {"latency-monitor-threshold", "-1", "argument must be between 0 and 3600000 inclusive"},
           {"latency-tracking", "maybe", "argument must be 'yes' or 'no'"},
           {"latency-tracking-info-percentiles", "50 x",
            "Invalid latency-tracking-info-percentiles parameters"},
           {"latency-tracking-info-percentiles", "101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"},
           {"enable-debug-command", "yes", "can't set immutable config"}}) {
    EXPECT_EQ(set(refused.name, refused.value),
              std::string("CONFIG SET failed (possibly related to argument '") + refused.name +
                  "') - " + refused.why);
  }
}

TEST(ConfigGet, KnowsRedisNamesAndOwnNames) {
  Config config = DefaultConfig();
  config.memory.max_memory_bytes = 104857600;
  config.server.timeout_us = 1500000;
  EXPECT_THAT(ConfigGet(config, "save"), ElementsAre(Pair("save", "")));
  EXPECT_THAT(ConfigGet(config, "APPENDONLY"), ElementsAre(Pair("appendonly", "yes")));
  EXPECT_THAT(ConfigGet(config, "appendfsync"), ElementsAre(Pair("appendfsync", "always")));
  EXPECT_THAT(ConfigGet(config, "maxmemory"), ElementsAre(Pair("maxmemory", "104857600")));
  EXPECT_THAT(ConfigGet(config, "timeout"), ElementsAre(Pair("timeout", "2")));
  EXPECT_THAT(ConfigGet(config, "log.s?nc"), ElementsAre(Pair("log.sync", "always")));
  EXPECT_THAT(ConfigGet(config, "log.s[xy]nc"), ElementsAre(Pair("log.sync", "always")));
  EXPECT_THAT(ConfigGet(config, "nothing"), IsEmpty());
  EXPECT_GT(ConfigGet(config, "*").size(), ConfigKeys().size());
}

TEST(ConfigSet, ChangesAllOrNothing) {
  Config config = DefaultConfig();
  std::vector<std::string> changed;
  ASSERT_TRUE(ConfigSet({{"maxmemory", "1gb"}, {"save", ""}, {"replication.ack_replicas", "1"}},
                        &config, &changed)
                  .ok());
  EXPECT_EQ(config.memory.max_memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(config.replication.ack_replicas, 1u);
  EXPECT_THAT(changed, ElementsAre("memory.max_memory", "replication.ack_replicas"));

  changed.clear();
  const absl::Status status = ConfigSet({{"timeout", "7"}, {"port", "1"}}, &config, &changed);
  EXPECT_EQ(status.message(),
            "CONFIG SET failed (possibly related to argument 'port') - can't set immutable config");
  EXPECT_EQ(config.server.timeout_us, 0u);
  EXPECT_THAT(changed, IsEmpty());
}

TEST(ConfigSet, WordsErrorsAsRedis) {
  Config config = DefaultConfig();
  std::vector<std::string> changed;
  EXPECT_EQ(ConfigSet({{"nope", "1"}}, &config, &changed).message(),
            "Unknown option or number of arguments for CONFIG SET - 'nope'");
  EXPECT_EQ(ConfigSet({{"maxmemory", "many"}}, &config, &changed).message(),
            "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a "
            "memory value");
  EXPECT_EQ(
      ConfigSet({{"timeout", "1"}, {"server.timeout", "1s"}}, &config, &changed).message(),
      "CONFIG SET failed (possibly related to argument 'server.timeout') - duplicate parameter");
  EXPECT_THAT(std::string(ConfigSet({{"appendonly", "no"}}, &config, &changed).message()),
              HasSubstr("it is always 'yes' here"));
  EXPECT_THAT(std::string(ConfigSet({{"timeout", "1x"}}, &config, &changed).message()),
              HasSubstr("'1x' is not allowed"));
}

TEST(Sizes, ReadAndWrite) {
  uint64_t bytes = 0;
  EXPECT_TRUE(ParseSize("8GiB", &bytes));
  EXPECT_EQ(bytes, uint64_t{8} << 30);
  EXPECT_TRUE(ParseSize("5mb", &bytes));
  EXPECT_EQ(bytes, 5000000u);
  EXPECT_TRUE(ParseSize("17", &bytes));
  EXPECT_EQ(bytes, 17u);
  for (const char* bad :
       {"", "GiB", "-1", "1.5GiB", "1 GiB", "1GiBx", "99999999999TiB", "18446744073709551616"}) {
    EXPECT_FALSE(ParseSize(bad, &bytes)) << bad;
  }
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1536), "1536B");
  EXPECT_EQ(FormatSize(uint64_t{3} << 20), "3MiB");
}

TEST(Durations, ReadAndWrite) {
  uint64_t duration_us = 0;
  EXPECT_TRUE(ParseDuration("500ms", &duration_us));
  EXPECT_EQ(duration_us, 500000u);
  EXPECT_TRUE(ParseDuration("0", &duration_us));
  EXPECT_EQ(duration_us, 0u);
  for (const char* bad : {"", "5", "ms", "-1s", "1.5s", "1S", "99999999999999999h"}) {
    EXPECT_FALSE(ParseDuration(bad, &duration_us)) << bad;
  }
  EXPECT_EQ(FormatDuration(90000000), "90s");
  EXPECT_EQ(FormatDuration(3600000000), "1h");
}

TEST(HostAndPort, AcceptsNamesAndAddresses) {
  for (const char* good : {"a:1", "10.0.0.1:7479", "[::1]:7479", "node-1.example:65535"}) {
    EXPECT_TRUE(IsHostAndPort(good)) << good;
  }
  for (const char* bad : {"", ":1", "a", "a:", "a:0", "a:65536", "a b:1", "::1:7479", "[x]:1"}) {
    EXPECT_FALSE(IsHostAndPort(bad)) << bad;
  }
}

}  // namespace
}  // namespace kvstored::server
