// What a session tells of its commands: their times, and MONITOR.
#include <string>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "command/front_thread.h"
#include "command/monitor.h"
#include "command/session.h"

namespace kvstored::command {

// The commands [first, end) of the batch took the time since the last call, or since it began: each
// gets its share, unless it is known which one it was. Commands that run at other shards say
// themselves how long they took there.
void Session::NoteTimes(size_t first, size_t end) {
  const Scratch& scratch = front_->scratch();
  const CommandClock::Lap lap = front_->clock().Read(end - first);
  const uint64_t share_ns = lap.of_last ? 0 : lap.ns / (end - first);
  for (size_t i = first; i < end; ++i) {
    const CommandSlice& slice = scratch.commands[i];
    if (slice.timed) {
      front_->NoteTime(*this, slice.spec, {scratch.args.data() + slice.first_arg, slice.arg_count},
                       lap.of_last && i + 1 == end ? lap.ns : share_ns);
    }
  }
}

void Session::BeginMonitoring() {
  monitoring_ = true;
  front_->AddMonitor(this);
}

void Session::EndMonitoring() {
  if (monitoring_) {
    monitoring_ = false;
    front_->RemoveMonitor(this);
  }
}

void Session::Feed(std::string_view lines) {
  if (close_now_ || reply_mode_ == ReplyMode::kOff) {
    return;
  }
  if (output_.pending_bytes() + queued_bytes_ + lines.size() > kMonitorOutputBytesMax) {
    base::LogWarning(absl::StrFormat("monitor %s closed: it does not read, %u bytes wait", peer_,
                                     output_.pending_bytes() + queued_bytes_ + lines.size()));
    CloseNow();
    return;
  }
  Target()->bytes.append(lines);
  CloseGroup();
  Pump();
}

}  // namespace kvstored::command
