// Whatever a client gives RESTORE: the payload is read within its bounds, a value has the length
// that it said, and unpacking in slices gives what unpacking at once gives.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/crc64.h"
#include "command/dump_payload.h"

namespace {

using kvstored::command::DumpedString;
using kvstored::command::LzfUnpacker;

constexpr uint64_t kValueBytesMax = 1 << 20;

std::string Unpacked(const DumpedString& string, uint64_t slice_bytes, bool* whole) {
  LzfUnpacker unpacker(string.bytes, string.value_bytes);
  LzfUnpacker::Result result = LzfUnpacker::Result::kMore;
  while (result == LzfUnpacker::Result::kMore) {
    result = unpacker.Step(string.bytes, slice_bytes);
  }
  *whole = result == LzfUnpacker::Result::kDone;
  if (*whole && unpacker.value().size() != string.value_bytes) {
    std::abort();
  }
  return unpacker.value();
}

void Check(std::string_view payload) {
  const auto string = kvstored::command::ParseDump(payload);
  if (!string || string->value_bytes > kValueBytesMax) {
    return;
  }
  if (!string->packed) {
    if (string->plain().size() != string->value_bytes) {
      std::abort();
    }
    return;
  }
  bool whole = false;
  bool whole_in_slices = false;
  const std::string value = Unpacked(*string, UINT64_MAX, &whole);
  if (Unpacked(*string, 7, &whole_in_slices) != value || whole != whole_in_slices) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  Check(input);
  if (kvstored::command::HasDumpVersion(input)) {
    const uint64_t crc = kvstored::base::Crc64(0, kvstored::command::ChecksummedBytes(input));
    (void)kvstored::command::ChecksumHolds(input, crc);
  }
  // What we write is read back.
  const std::string body = kvstored::command::DumpSmall(input);
  const std::string payload = body + kvstored::command::DumpFooter(kvstored::base::Crc64(0, body));
  const auto string = kvstored::command::ParseDump(payload);
  if (!string || string->packed || string->plain() != input) {
    std::abort();
  }
  return 0;
}
