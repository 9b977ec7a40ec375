#include "command/slow_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace kvstored::command {
namespace {

constexpr size_t kWordsMax = 32;
constexpr size_t kWordBytesMax = 128;

std::string Shortened(std::string_view word) {
  std::string text(word.substr(0, kWordBytesMax));
  if (word.size() > kWordBytesMax) {
    text += absl::StrFormat("... (%u more bytes)", word.size() - kWordBytesMax);
  }
  return text;
}

std::vector<std::string> Shortened(std::span<const std::string_view> args) {
  std::vector<std::string> words;
  const bool all = args.size() <= kWordsMax;
  for (const std::string_view arg : args.first(all ? args.size() : kWordsMax - 1)) {
    words.push_back(Shortened(arg));
  }
  if (!all) {
    words.push_back(absl::StrFormat("... (%u more arguments)", args.size() - words.size()));
  }
  return words;
}

}  // namespace

void SlowLog::Add(Entry entry, std::span<const std::string_view> args, uint64_t entries_max) {
  entry.words = Shortened(args);
  const std::lock_guard lock(mutex_);
  entry.id = next_id_++;
  entries_.push_front(std::move(entry));
  TrimLocked(entries_max);
}

std::vector<SlowLog::Entry> SlowLog::Newest(size_t count) const {
  const std::lock_guard lock(mutex_);
  const auto end = entries_.begin() + static_cast<int64_t>(std::min(count, entries_.size()));
  return {entries_.begin(), end};
}

size_t SlowLog::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void SlowLog::Reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

void SlowLog::Trim(uint64_t entries_max) {
  const std::lock_guard lock(mutex_);
  TrimLocked(entries_max);
}

void SlowLog::TrimLocked(uint64_t entries_max) {
  while (entries_.size() > entries_max) {
    entries_.pop_back();
  }
}

}  // namespace kvstored::command
