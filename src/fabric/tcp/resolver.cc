#include "fabric/tcp/resolver.h"

#include <utility>

namespace kvstored::fabric {

Resolver::Resolver(std::function<void()> on_ready) : on_ready_(std::move(on_ready)) {
}

Resolver::~Resolver() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Resolver::Start(LinkId link, HostPort where) {
  {
    const std::lock_guard lock(mutex_);
    asked_.emplace_back(link, std::move(where));
  }
  changed_.notify_all();
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { Run(); });
  }
}

std::vector<ResolvedName> Resolver::TakeResolved() {
  const std::lock_guard lock(mutex_);
  return std::exchange(resolved_, {});
}

void Resolver::Run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !asked_.empty(); });
    if (stop_) {
      return;
    }
    const auto [link, where] = std::move(asked_.front());
    asked_.pop_front();
    lock.unlock();
    ResolvedName resolved{link, Resolve(where, /*numeric_only=*/false)};
    lock.lock();
    resolved_.push_back(std::move(resolved));
    lock.unlock();
    on_ready_();
  }
}

}  // namespace kvstored::fabric
