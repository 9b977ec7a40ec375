#include "tests/sim/sim_connection.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace kvstored::sim {

bool ParseReply(std::string_view bytes, size_t* at, SimReply* reply) {
  const size_t end = bytes.find("\r\n", *at);
  if (end == std::string_view::npos) {
    return false;
  }
  const std::string line(bytes.substr(*at, end - *at));
  size_t next = end + 2;
  reply->type = line.empty() ? '?' : line[0];
  reply->text = line.substr(std::min<size_t>(1, line.size()));
  if (reply->type == ':') {
    reply->number = std::strtoll(reply->text.c_str(), nullptr, 10);
  } else if (reply->type == '$' || reply->type == '*') {
    const int64_t count = std::strtoll(reply->text.c_str(), nullptr, 10);
    reply->text.clear();
    if (count < 0) {
      reply->type = '_';
    } else if (reply->type == '$') {
      const auto size = static_cast<size_t>(count);
      if (bytes.size() < next + size + 2) {
        return false;
      }
      reply->text = std::string(bytes.substr(next, size));
      next += size + 2;
    } else {
      reply->items.clear();
      for (int64_t i = 0; i < count; ++i) {
        SimReply& item = reply->items.emplace_back();
        if (!ParseReply(bytes, &next, &item)) {
          return false;
        }
      }
    }
  }
  *at = next;
  return true;
}

std::string EncodeCommand(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

void SimConnection::Deliver() {
  delivery_posted_ = false;
  if (handler_ == nullptr) {
    return;
  }
  if (hang_up_) {
    Close();
    return;
  }
  if (writable_due_) {
    writable_due_ = false;
    handler_->OnWritable();
  }
  if (handler_ != nullptr && !wire_.empty() && handler_->CanRead()) {
    // A socket hands over any prefix of what was written.
    const size_t count = random_.Chance(0.2) ? 1 + random_.Below(wire_.size()) : wire_.size();
    input_.append(wire_, 0, count);
    wire_.erase(0, count);
    Offer();
  }
}

void SimConnection::Offer() {
  const size_t consumed = handler_->OnInput({input_.data(), input_.size()});
  input_.erase(0, consumed);
}

int64_t SimConnection::Send(std::span<const std::string_view> pieces) {
  size_t total = 0;
  for (const std::string_view piece : pieces) {
    total += piece.size();
  }
  size_t left = random_.Chance(0.05) ? random_.Below(total + 1) : total;
  writable_due_ = writable_due_ || left < total;
  const auto taken = static_cast<int64_t>(left);
  for (const std::string_view piece : pieces) {
    const size_t count = std::min(left, piece.size());
    received_.append(piece.substr(0, count));
    left -= count;
  }
  return taken;
}

void SimConnection::Resume() {
  if (handler_ != nullptr && !input_.empty()) {
    Offer();
  }
}

void SimConnection::Close() {
  if (handler_ == nullptr) {
    return;
  }
  net::ConnHandler* handler = std::exchange(handler_, nullptr);
  closed_ = true;
  handler->OnClosed();
}

}  // namespace kvstored::sim
