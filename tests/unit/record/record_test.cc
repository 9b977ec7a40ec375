#include "record/record.h"

#include <gtest/gtest.h>

#include "base/endian.h"
#include "kvstored/limits.h"
#include "record/cursor.h"

namespace kvstored::record {
namespace {

Record Sample(std::string_view key, std::string_view value) {
  Record record;
  record.seq = 0x0102030405060708;
  record.digest = {0x1112131415161718, 0x2122232425262728};
  record.timestamp_us = 1700000000000000;
  record.op = RecordOp::kSet;
  record.flags = kRecordInTxn;
  record.epoch = 7;
  record.expiry_ms = 1800000000000;
  record.aux = 99;
  record.key = key;
  record.value = value;
  return record;
}

// Decodes from a heap block of exactly that size, so that ASan sees any read beyond it.
DecodeResult DecodeExactly(std::span<const uint8_t> bytes, Record* record, size_t* size_bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const DecodeResult result = Decode(copy, record, size_bytes);
  record->key = {};
  record->value = {};
  return result;
}

TEST(RecordTest, RoundTripAtEveryPadding) {
  for (size_t key_bytes = 0; key_bytes < 10; ++key_bytes) {
    for (size_t value_bytes = 0; value_bytes < 10; ++value_bytes) {
      const std::string key(key_bytes, 'k');
      const std::string value(value_bytes, '\0');
      const Record in = Sample(key, value);
      std::vector<uint8_t> bytes;
      Encode(in, &bytes);
      ASSERT_EQ(bytes.size(), EncodedBytes(key_bytes, value_bytes));
      ASSERT_EQ(bytes.size() % kRecordAlign, 0u);
      Record out;
      size_t size_bytes = 0;
      ASSERT_EQ(Decode(bytes, &out, &size_bytes), DecodeResult::kOk);
      EXPECT_EQ(size_bytes, bytes.size());
      EXPECT_EQ(out.seq, in.seq);
      EXPECT_EQ(out.digest, in.digest);
      EXPECT_EQ(out.timestamp_us, in.timestamp_us);
      EXPECT_EQ(out.op, in.op);
      EXPECT_EQ(out.flags, in.flags);
      EXPECT_EQ(out.epoch, in.epoch);
      EXPECT_EQ(out.expiry_ms, in.expiry_ms);
      EXPECT_EQ(out.aux, in.aux);
      EXPECT_EQ(out.key, key);
      EXPECT_EQ(out.value, value);
    }
  }
}

TEST(RecordTest, EveryBitFlipIsDetected) {
  for (const char* value : {"", "value", "12345678"}) {
    std::vector<uint8_t> bytes;
    Encode(Sample("key", value), &bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::vector<uint8_t> bad = bytes;
        bad[i] = static_cast<uint8_t>(bad[i] ^ (1 << bit));
        Record record;
        size_t size_bytes = 0;
        EXPECT_NE(DecodeExactly(bad, &record, &size_bytes), DecodeResult::kOk)
            << "byte " << i << " bit " << bit;
      }
    }
  }
}

TEST(RecordTest, EveryByteValueIsDetected) {
  std::vector<uint8_t> bytes;
  Encode(Sample("k", "v"), &bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      if (value == bytes[i]) {
        continue;
      }
      std::vector<uint8_t> bad = bytes;
      bad[i] = static_cast<uint8_t>(value);
      Record record;
      size_t size_bytes = 0;
      ASSERT_NE(DecodeExactly(bad, &record, &size_bytes), DecodeResult::kOk);
    }
  }
}

TEST(RecordTest, TruncationAtEveryByte) {
  std::vector<uint8_t> bytes;
  Encode(Sample("some key", "some longer value"), &bytes);
  for (size_t n = 0; n < bytes.size(); ++n) {
    Record record;
    size_t size_bytes = 0;
    EXPECT_EQ(DecodeExactly({bytes.data(), n}, &record, &size_bytes), DecodeResult::kTruncated);
  }
}

TEST(RecordTest, TrailingBytesBelongToTheNext) {
  std::vector<uint8_t> bytes;
  Encode(Sample("a", "1"), &bytes);
  const size_t first = bytes.size();
  Encode(Sample("bb", "22"), &bytes);
  Record record;
  size_t size_bytes = 0;
  ASSERT_EQ(Decode(bytes, &record, &size_bytes), DecodeResult::kOk);
  EXPECT_EQ(size_bytes, first);
  EXPECT_EQ(record.key, "a");
  ASSERT_EQ(Decode(std::span(bytes).subspan(first), &record, &size_bytes), DecodeResult::kOk);
  EXPECT_EQ(record.key, "bb");
}

TEST(RecordTest, ZerosAreNoRecord) {
  const std::vector<uint8_t> zeros(256);
  Record record;
  size_t size_bytes = 0;
  EXPECT_EQ(Decode(zeros, &record, &size_bytes), DecodeResult::kBad);
}

TEST(RecordTest, LargestRecord) {
  const std::string key(kKeyBytesMax, 'k');
  const std::string value(kPartBytesMax, 'v');
  std::vector<uint8_t> bytes;
  Encode(Sample(key, value), &bytes);
  EXPECT_LE(bytes.size(), kRecordBytesMax);
  Record record;
  size_t size_bytes = 0;
  ASSERT_EQ(Decode(bytes, &record, &size_bytes), DecodeResult::kOk);
  EXPECT_EQ(record.value.size(), kPartBytesMax);
}

TEST(RecordTest, OversizeLengthIsBadNotTruncated) {
  std::vector<uint8_t> bytes;
  Encode(Sample("k", "v"), &bytes);
  base::StoreBe32(bytes.data() + 24, 0xffffffff);
  Record record;
  size_t size_bytes = 0;
  EXPECT_EQ(Decode(bytes, &record, &size_bytes), DecodeResult::kBad);
  base::StoreBe32(bytes.data() + 24, static_cast<uint32_t>(kRecordBytesMax));
  EXPECT_EQ(Decode(bytes, &record, &size_bytes), DecodeResult::kBad);
}

TEST(RecordTest, TxnPartsRoundTripAndRefuse) {
  const std::vector<TxnPart> parts = {{0, 1}, {255, 0xffffffffffffffff}, {3, 7}};
  const std::string value = EncodeTxnParts(parts);
  EXPECT_EQ(value.size(), 30u);
  std::vector<TxnPart> out;
  ASSERT_TRUE(DecodeTxnParts(value, &out));
  EXPECT_EQ(out, parts);
  ASSERT_TRUE(DecodeTxnParts("", &out));
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(DecodeTxnParts(std::string_view(value).substr(1), &out));
  EXPECT_FALSE(DecodeTxnParts(std::string(10 * (kShardCountMax + 1), '\0'), &out));
}

TEST(CursorTest, WalksAndStopsAtGarbage) {
  std::vector<uint8_t> bytes;
  Encode(Sample("a", "1"), &bytes);
  Encode(Sample("bb", "22222222"), &bytes);
  size_t count = 0;
  Cursor cursor(bytes);
  for (; cursor.at_record(); cursor.Next()) {
    EXPECT_EQ(cursor.seq(), 0x0102030405060708u);
    ++count;
  }
  EXPECT_EQ(count, 2u);
  EXPECT_FALSE(cursor.is_bad());
  for (size_t n = 1; n < bytes.size(); ++n) {
    const std::vector<uint8_t> copy(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    Cursor cut(copy);
    while (cut.at_record()) {
      cut.Next();
    }
    EXPECT_TRUE(cut.is_bad() || cut.offset() == n);
  }
}

}  // namespace
}  // namespace kvstored::record
