// Names to addresses on a thread of its own: getaddrinfo(3) blocks for as long as the name servers
// let it. Numeric addresses never come here.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "fabric/tcp/socket.h"
#include "kvstored/fabric.h"

namespace kvstored::fabric {

struct ResolvedName {
  LinkId link = 0;
  absl::StatusOr<std::vector<SocketAddress>> addresses;
};

// Thread-safe. The destructor waits for the lookup under way, at most the resolver's own time-out.
class Resolver {
 public:
  // `on_ready` is called on the resolver's thread when there is something to take.
  explicit Resolver(std::function<void()> on_ready);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The first call starts the thread.
  void Start(LinkId link, HostPort where);
  std::vector<ResolvedName> TakeResolved();

 private:
  void Run();

  const std::function<void()> on_ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<LinkId, HostPort>> asked_;
  std::vector<ResolvedName> resolved_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kvstored::fabric
