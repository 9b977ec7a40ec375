#include "server/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace kvstored::server {
namespace {

// Plays systemd: a datagram socket in the file system or, with '@', in the abstract name space.
class NotifyTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string directory = ::testing::TempDir() + "/notify_XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    directory_ = directory;
    path_ = (GetParam() ? "@" : "") + directory + "/socket";
    fd_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (GetParam()) {
      address.sun_path[0] = '\0';
    }
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
    ASSERT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0) << std::strerror(errno);
  }
  void TearDown() override {
    close(fd_);
    unlink((directory_ + "/socket").c_str());
    rmdir(directory_.c_str());
  }
  std::string Received() {
    std::array<char, 512> buffer{};
    const ssize_t size = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(buffer.data(), static_cast<size_t>(size));
  }

  std::string directory_;
  std::string path_;
  int fd_ = -1;
};

TEST_P(NotifyTest, SaysWhatSystemdReads) {
  const Notify notify(path_, 3000000);
  notify.Ready("primary\nepoch 7");
  EXPECT_EQ(Received(), "READY=1\nSTATUS=primary epoch 7");
  notify.Status("full sync 12 %");
  EXPECT_EQ(Received(), "STATUS=full sync 12 %");
  notify.ExtendTimeout(30000000, "recovering");
  EXPECT_EQ(Received(), "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering");
  notify.Stopping("persisting");
  EXPECT_EQ(Received(), "STOPPING=1\nSTATUS=persisting");
  notify.Watchdog();
  EXPECT_EQ(Received(), "WATCHDOG=1");
  EXPECT_EQ(notify.watchdog_period_us(), 1500000);
  EXPECT_EQ(Received(), "nothing");
}

INSTANTIATE_TEST_SUITE_P(PathAndAbstract, NotifyTest, ::testing::Bool());

TEST(NotifyEnvironment, ReadsTheVariables) {
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
  EXPECT_FALSE(Notify::FromEnvironment().enabled());
  Notify::FromEnvironment().Ready("nobody listens");
  setenv("NOTIFY_SOCKET", "/run/x", 1);
  setenv("WATCHDOG_USEC", "2000000", 1);
  EXPECT_TRUE(Notify::FromEnvironment().enabled());
  EXPECT_EQ(Notify::FromEnvironment().watchdog_period_us(), 1000000);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(Notify::FromEnvironment().watchdog_period_us(), 0);
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

TEST(NotifyErrors, ANameTooLongIsNoCrash) {
  Notify(std::string(300, 'x'), 0).Ready("x");
  Notify("/nowhere/at/all", 0).Ready("x");
}

}  // namespace
}  // namespace kvstored::server
