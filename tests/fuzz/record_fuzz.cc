// Whatever a disk or a peer gives for records, frames and segment headers: what is accepted encodes
// to the same bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "log/frame.h"
#include "record/cursor.h"
#include "record/record.h"

namespace {

using namespace kvstored;  // NOLINT: a fuzzer of two rooms

void CheckRecord(std::span<const uint8_t> bytes) {
  record::Record decoded;
  size_t size_bytes = 0;
  if (record::Decode(bytes, &decoded, &size_bytes) == record::DecodeResult::kOk) {
    std::vector<uint8_t> again;
    record::Encode(decoded, &again);
    if (again.size() != size_bytes || !std::equal(again.begin(), again.end(), bytes.begin())) {
      std::abort();
    }
  }
  size_t walked = 0;
  for (record::Cursor cursor(bytes); cursor.at_record(); cursor.Next()) {
    walked += cursor.size_bytes();
  }
  if (walked > bytes.size()) {
    std::abort();
  }
  std::vector<record::TxnPart> parts;
  const std::string value(bytes.begin(), bytes.end());
  if (record::DecodeTxnParts(value, &parts) && record::EncodeTxnParts(parts) != value) {
    std::abort();
  }
}

void CheckFrame(std::span<const uint8_t> bytes) {
  log::FrameHeader header;
  if (bytes.size() >= log::kFrameHeaderBytes && log::DecodeFrameHeader(bytes.data(), &header)) {
    uint8_t again[log::kFrameHeaderBytes];
    log::EncodeFrameHeader(header, again);
    if (!std::equal(again, again + log::kFrameHeaderBytes, bytes.begin())) {
      std::abort();
    }
  }
}

void CheckSegment(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> page(log::kSegmentHeaderBytes, 0);
  std::copy_n(bytes.begin(), std::min(bytes.size(), page.size()), page.begin());
  log::SegmentHeader header;
  (void)log::DecodeSegmentHeader(
      std::span<const uint8_t, log::kSegmentHeaderBytes>(page.data(), page.size()), &header);
}

}  // namespace

// The first byte chooses what the rest is taken for.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::span<const uint8_t> rest(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      CheckRecord(rest);
      break;
    case 1:
      CheckFrame(rest);
      break;
    default:
      CheckSegment(rest);
      break;
  }
  return 0;
}
