#include "log/damage.h"

#include "absl/strings/cord.h"

namespace kvstored::log {
namespace {

constexpr char kMark[] = "kvstored.dev/damage";

}  // namespace

absl::Status DamageError(absl::string_view text) {
  absl::Status status = absl::DataLossError(text);
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsDamage(const absl::Status& status) {
  return status.GetPayload(kMark).has_value();
}

absl::Status Reworded(const absl::Status& status, absl::string_view text) {
  absl::Status reworded(status.code(), text);
  status.ForEachPayload([&reworded](absl::string_view type, const absl::Cord& payload) {
    reworded.SetPayload(type, payload);
  });
  return reworded;
}

}  // namespace kvstored::log
