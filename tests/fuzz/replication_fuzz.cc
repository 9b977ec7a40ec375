// Whatever a peer sends: control messages, frame headers, watermarks, immediates. What is accepted
// must encode to the same bytes again.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "replication/frame.h"
#include "replication/wire.h"

namespace {

using namespace kvstored::replication;  // NOLINT: a fuzzer of one room

void CheckMessage(std::span<const uint8_t> bytes) {
  std::string error;
  const auto message = DecodeMessage(bytes, &error);
  if (!message ? error.empty()
               : EncodeMessage(*message) != std::vector<uint8_t>(bytes.begin(), bytes.end())) {
    std::abort();
  }
}

void CheckFrame(std::span<const uint8_t> bytes) {
  if (const auto header = DecodeFrameHeader(bytes)) {
    uint8_t again[kFrameHeaderBytes];
    EncodeFrameHeader(*header, again);
    if (DecodeFrameHeader(again) != *header) {
      std::abort();
    }
  }
  Watermark watermark;
  if (DecodeWatermark(bytes, &watermark)) {
    std::vector<uint8_t> again;
    EncodeWatermark(watermark, &again);
    if (again.size() != bytes.size()) {
      std::abort();
    }
  }
  uint32_t raw = 0;
  std::memcpy(&raw, bytes.data(), std::min(sizeof(raw), bytes.size()));
  if (const auto immediate = DecodeImmediate(raw);
      immediate && EncodeImmediate(*immediate) != raw) {
    std::abort();
  }
}

}  // namespace

// The first byte chooses what the rest is taken for.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1) {
    const std::span<const uint8_t> rest(data + 1, size - 1);
    if (data[0] % 2 == 0) {
      CheckMessage(rest);
    } else {
      CheckFrame(rest);
    }
  }
  return 0;
}
