// Operation: a control procedure (promotion, full sync, checkpoint, ...) as a list of steps, each
// polled until it is done. Steps never block, so one thread can run several operations beside its
// other work, and the simulator can run a whole cluster on one thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/log.h"

namespace kvstored::server {

// What one poll of a step says.
struct Progress {
  enum class Kind { kDone, kAgain, kFailed };
  Kind kind = Kind::kDone;
  absl::Status error;

  static Progress Done() {
    return {Kind::kDone, absl::OkStatus()};
  }
  static Progress Again() {
    return {Kind::kAgain, absl::OkStatus()};
  }
  static Progress Failed(absl::Status error) {
    return {Kind::kFailed, std::move(error)};
  }
  static Progress From(const absl::Status& status) {
    return status.ok() ? Done() : Failed(status);
  }
};

class Operation {
 public:
  // `finished` is called once, with OK or with the first step's error.
  Operation(std::string name, std::function<void(const absl::Status&)> finished)
      : name_(std::move(name)), finished_(std::move(finished)) {
  }

  Operation& Then(std::function<Progress()> step) {
    steps_.push_back(std::move(step));
    return *this;
  }

  // Runs steps until one has to wait. True when the operation has ended.
  bool Poll() {
    while (!steps_.empty()) {
      // A step may add steps behind itself; a deque keeps the running one in place.
      const Progress progress = steps_.front()();
      if (progress.kind == Progress::Kind::kAgain) {
        return false;
      }
      if (progress.kind == Progress::Kind::kFailed) {
        Finish(progress.error);
        return true;
      }
      steps_.pop_front();
    }
    Finish(absl::OkStatus());
    return true;
  }

 private:
  void Finish(const absl::Status& status) {
    steps_.clear();
    base::LogDebug(
        absl::StrFormat("%s: %s", name_, status.ok() ? "done" : std::string(status.message())));
    if (finished_) {
      std::exchange(finished_, nullptr)(status);
    }
  }

  const std::string name_;  // for the log
  std::deque<std::function<Progress()>> steps_;
  std::function<void(const absl::Status&)> finished_;
};

}  // namespace kvstored::server
