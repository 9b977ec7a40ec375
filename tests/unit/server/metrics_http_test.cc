#include "server/metrics_http.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "metrics/snapshot.h"

namespace kvstored::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Get(uint16_t port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = read(fd, buffer.data(), buffer.size())) > 0;) {
    answer.append(buffer.data(), static_cast<size_t>(size));
  }
  close(fd);
  return answer;
}

class MetricsHttpTest : public ::testing::Test {
 protected:
  MetricsHttp::Options Options() {
    MetricsHttp::Options options;
    options.bind = "127.0.0.1";
    options.registry = &registry_;
    options.healthz = [] {
      return Health{true, "alive"};
    };
    options.readyz = [this] {
      return ready_ ? Health{true, "primary"} : Health{false, "loading"};
    };
    return options;
  }
  metrics::Registry registry_;
  std::atomic<bool> ready_{false};
};

TEST_F(MetricsHttpTest, ServesThreePagesAndNoOther) {
  registry_.Add([](metrics::Collection* collection) {
    collection->AddCounter("kvstored_records_total", "Records.", 7, {{"shard", "0"}});
  });
  const auto http = MetricsHttp::Start(Options());
  ASSERT_TRUE(http.ok()) << http.status();
  const uint16_t port = (*http)->port();
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("kvstored_records_total{shard=\"0\"} 7"));
  EXPECT_THAT(Get(port, "/healthz"), HasSubstr("\r\n\r\nalive\n"));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(port, "/readyz"), HasSubstr("loading"));
  ready_ = true;
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, "/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get(port, "/../../etc/passwd"), ::testing::Not(HasSubstr("root:")));
}

TEST_F(MetricsHttpTest, APortInUseIsAnErrorThatNamesIt) {
  const auto first = MetricsHttp::Start(Options());
  ASSERT_TRUE(first.ok()) << first.status();
  MetricsHttp::Options options = Options();
  options.port = (*first)->port();
  const auto second = MetricsHttp::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("127.0.0.1:" + std::to_string(options.port)));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("metrics.port"));
}

TEST(PrometheusText, HistogramsAreCumulativeAndEndInInfinity) {
  metrics::Histogram histogram{.first_log2 = 1, .bucket_count = 2};  // 2 us, 4 us
  histogram.Observe(1);
  histogram.Observe(3);
  histogram.Observe(100);
  metrics::Collection collection;
  collection.AddHistogram("rdma_write_latency", "Time.", histogram,
                          metrics::kMicrosecondsToSeconds);
  const std::string text = PrometheusText(collection);
  EXPECT_THAT(text, HasSubstr("# TYPE rdma_write_latency histogram"));
  EXPECT_THAT(text, HasSubstr("rdma_write_latency_bucket{le=\"+Inf\"} 3"));
  EXPECT_THAT(text, HasSubstr("rdma_write_latency_count 3"));
  EXPECT_THAT(text, HasSubstr("e-06\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("e-06\"} 2\n"));
}

}  // namespace
}  // namespace kvstored::server
