#include "resp/writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace kvstored::resp {
namespace {

void AppendHeader(std::string* out, char type, int64_t value) {
  char text[24];
  text[0] = type;
  char* end = std::to_chars(text + 1, text + sizeof(text) - 2, value).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out->append(text, static_cast<size_t>(end - text));
}

// As Redis 7.0 writes doubles: inf, -inf, nan, otherwise "%.17g".
std::string_view FormatDouble(double value, char* text, size_t text_bytes) {
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  if (std::isnan(value)) {
    return "nan";
  }
  const int bytes = std::snprintf(text, text_bytes, "%.17g", value);
  return {text, static_cast<size_t>(bytes)};
}

}  // namespace

void Writer::Simple(std::string_view text) {
  out_->push_back('+');
  out_->append(text);
  out_->append("\r\n");
}

void Writer::Error(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n')) {
    text.remove_suffix(1);
  }
  out_->push_back('-');
  const size_t start = out_->size();
  out_->append(text);
  std::replace_if(
      out_->begin() + static_cast<std::ptrdiff_t>(start), out_->end(),
      [](char c) { return c == '\r' || c == '\n'; }, ' ');
  out_->append("\r\n");
}

void Writer::Integer(int64_t value) {
  AppendHeader(out_, ':', value);
}

void Writer::Bulk(std::string_view bytes) {
  AppendHeader(out_, '$', static_cast<int64_t>(bytes.size()));
  out_->append(bytes);
  out_->append("\r\n");
}

void Writer::BulkHeader(uint64_t size_bytes) {
  AppendHeader(out_, '$', static_cast<int64_t>(size_bytes));
}

void Writer::Null() {
  out_->append(protocol_ == 3 ? "_\r\n" : "$-1\r\n");
}

void Writer::NullArray() {
  out_->append(protocol_ == 3 ? "_\r\n" : "*-1\r\n");
}

void Writer::Array(uint64_t count) {
  AppendHeader(out_, '*', static_cast<int64_t>(count));
}

void Writer::Map(uint64_t pair_count) {
  if (protocol_ == 3) {
    AppendHeader(out_, '%', static_cast<int64_t>(pair_count));
  } else {
    AppendHeader(out_, '*', static_cast<int64_t>(pair_count * 2));
  }
}

void Writer::Set(uint64_t count) {
  AppendHeader(out_, protocol_ == 3 ? '~' : '*', static_cast<int64_t>(count));
}

void Writer::Push(uint64_t count) {
  AppendHeader(out_, protocol_ == 3 ? '>' : '*', static_cast<int64_t>(count));
}

void Writer::Double(double value) {
  char text[40];
  const std::string_view formatted = FormatDouble(value, text, sizeof(text));
  if (protocol_ == 3) {
    out_->push_back(',');
    out_->append(formatted);
    out_->append("\r\n");
  } else {
    Bulk(formatted);
  }
}

void Writer::Boolean(bool value) {
  if (protocol_ == 3) {
    out_->append(value ? "#t\r\n" : "#f\r\n");
  } else {
    Integer(value ? 1 : 0);
  }
}

void Writer::Verbatim(std::string_view text) {
  if (protocol_ == 3) {
    AppendHeader(out_, '=', static_cast<int64_t>(text.size() + 4));
    out_->append("txt:");
    out_->append(text);
    out_->append("\r\n");
  } else {
    Bulk(text);
  }
}

}  // namespace kvstored::resp
