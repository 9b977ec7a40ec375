// Writes RESP2 and RESP3 replies (https://github.com/redis/redis-specifications). Pure: appends to
// a string. Where the two versions differ the writer decides, so that handlers never ask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvstored::resp {

class Writer {
 public:
  Writer(std::string* out, int protocol) : out_(out), protocol_(protocol) {
  }
  int protocol() const {
    return protocol_;
  }
  void SetProtocol(int protocol) {
    protocol_ = protocol;
  }
  std::string* out() {
    return out_;
  }

  void Simple(std::string_view text);    // +OK
  void Error(std::string_view text);     // -ERR ...; text with its code word; CR and LF become
                                         // spaces, at the end nothing (as in Redis)
  void Integer(int64_t value);           // :1
  void Bulk(std::string_view bytes);     // $3 foo
  void BulkHeader(uint64_t size_bytes);  // "$<n>\r\n", the caller appends bytes and "\r\n"
  void Null();                           // RESP2 $-1, RESP3 _
  void NullArray();                      // RESP2 *-1, RESP3 _
  void Array(uint64_t count);            // *n
  void Map(uint64_t pair_count);         // RESP3 %n, RESP2 *2n
  void Set(uint64_t count);              // RESP3 ~n, RESP2 *n
  void Push(uint64_t count);             // RESP3 >n, RESP2 *n
  void Double(double value);             // RESP3 ",", RESP2 bulk
  void Boolean(bool value);              // RESP3 #t/#f, RESP2 :1/:0
  void Verbatim(std::string_view text);  // RESP3 =...txt:, RESP2 bulk

 private:
  std::string* out_;
  int protocol_;
};

}  // namespace kvstored::resp
