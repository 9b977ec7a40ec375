// A client's connection without a socket: the session's side is net::Connection, the client's side
// is bytes in and replies out. What Send took is what the client has seen, whatever crashes later.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/conn_handler.h"
#include "tests/sim/sim_random.h"

namespace kvstored::sim {

// One reply of RESP2.
struct SimReply {
  char type = 0;  // + - : $ * and _ for a null
  std::string text;
  int64_t number = 0;
  std::vector<SimReply> items;
};

// Reads one reply from `bytes` at `*at` and moves it; false: not all of it is there.
bool ParseReply(std::string_view bytes, size_t* at, SimReply* reply);
// A command as clients send it.
std::string EncodeCommand(const std::vector<std::string>& words);

// The client owns it; the session borrows it until OnClosed.
class SimConnection final : public net::Connection {
 public:
  SimConnection(uint64_t seed, std::string peer) : random_(seed), peer_(std::move(peer)) {
  }

  // --- The client. ---
  void Write(std::string_view bytes) {
    wire_.append(bytes);
  }
  // Everything that was received since the connection began.
  std::string& received() {
    return received_;
  }
  bool closed() const {
    return closed_;
  }
  void HangUp() {
    hang_up_ = true;
  }

  // --- The scheduler. ---
  void Attach(net::ConnHandler* handler) {
    handler_ = handler;
  }
  bool WantsDelivery() const {
    return handler_ != nullptr && !delivery_posted_ &&
           (!wire_.empty() || writable_due_ || hang_up_);
  }
  void NoteDeliveryPosted() {
    delivery_posted_ = true;
  }
  // On the session's thread: hands over some of what the client wrote.
  void Deliver();
  // The process died: the session is no more.
  void NodeGone() {
    handler_ = nullptr;
    closed_ = true;
  }

  // --- net::Connection ---
  int64_t Send(std::span<const std::string_view> pieces) override;
  void Resume() override;
  void Close() override;
  const std::string& peer() const override {
    return peer_;
  }
  const std::string& local() const override {
    return local_;
  }
  int fd() const override {
    return -1;
  }
  size_t input_bytes() const override {
    return input_.size();
  }

 private:
  void Offer();

  SimRandom random_;
  net::ConnHandler* handler_ = nullptr;
  std::string peer_;
  std::string local_ = "127.0.0.1:1";
  std::string wire_;      // written by the client, not arrived
  std::string input_;     // arrived, not consumed
  std::string received_;  // by the client
  bool closed_ = false;
  bool hang_up_ = false;
  bool writable_due_ = false;
  bool delivery_posted_ = false;
};

}  // namespace kvstored::sim
