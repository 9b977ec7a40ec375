// Links that only ask: who are you, promise, announcement (P15, P17, P19), and the tail of a log.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "replication/outgoing_link.h"

namespace kvstored::replication {

class AskLink : public OutgoingLink {
 public:
  AskLink(EngineContext* context, std::string address, PeerQuestion question, uint32_t number,
          int64_t deadline_us, std::function<void(PeerAnswer)> done);

  void OnClosed(const absl::Status& why) override;
  int64_t timer_us() const override;
  void OnTimer(int64_t now_us) override;

 protected:
  void OnAdmitted() override;
  void OnAdmittedMessage(Message& message) override;
  void OnRefused(Refusal refusal, const std::string& text) override;

 private:
  void Finish(absl::Status status);

  PeerAnswer answer_;
  const PeerQuestion question_;
  const uint32_t number_;
  const int64_t deadline_us_;
  std::function<void(PeerAnswer)> done_;  // null once called
};

class TailLink : public OutgoingLink {
 public:
  TailLink(EngineContext* context, ShardId shard, Seq from_seq, int64_t deadline_us,
           std::function<bool(record::BatchRef)> next, std::function<void(absl::Status)> done);

  void OnClosed(const absl::Status& why) override;
  int64_t timer_us() const override;
  void OnTimer(int64_t now_us) override;

 protected:
  void OnAdmitted() override;
  void OnAdmittedMessage(Message& message) override;
  void OnRefused(Refusal refusal, const std::string& text) override;

 private:
  void Request();
  absl::Status TakeBatch();
  void Finish(absl::Status status);

  const ShardId shard_;
  Seq from_seq_;
  const int64_t deadline_us_;
  std::vector<uint8_t> bytes_;  // of the answer under way; bounded by what was asked for
  std::function<bool(record::BatchRef)> next_;
  std::function<void(absl::Status)> done_;  // null once called
};

// One AskLink per address; `done` when all have answered or failed.
void AskAll(EngineContext* context, const std::vector<std::string>& addresses,
            PeerQuestion question, uint32_t number, int64_t deadline_us,
            std::function<void(std::vector<PeerAnswer>)> done);

}  // namespace kvstored::replication
