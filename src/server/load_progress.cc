#include "server/load_progress.h"

#include "absl/strings/str_format.h"

namespace kvstored::server {

void LoadProgress::Begin(Phase phase, uint64_t record_count) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  record_count_ = record_count;
  records_before_ = records();
}

std::string LoadProgress::Text() const {
  const std::lock_guard lock(mutex_);
  const auto counted = [this](const char* what) {
    return absl::StrFormat("%s: %d of %d records", what, records() - records_before_,
                           record_count_);
  };
  switch (phase_) {
    case Phase::kNone:
      return "starting";
    case Phase::kCheckpoint:
      return counted("loading the checkpoint");
    case Phase::kScan:
      return "reading and checking the log";
    case Phase::kReplay:
      return counted("replaying the log");
    case Phase::kTail:
      return counted("reading the log's newest part");
    case Phase::kDone:
      return "loaded, taking up its role";
  }
  return "";
}

}  // namespace kvstored::server
