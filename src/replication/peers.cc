#include "replication/peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "record/record.h"

namespace kvstored::replication {
namespace {

constexpr uint32_t kTailBytes = 512 << 10;
// One record may be larger than what was asked for.
constexpr size_t kTailBytesMax = kTailBytes + kRecordBytesMax;

}  // namespace

AskLink::AskLink(EngineContext* context, std::string address, PeerQuestion question,
                 uint32_t number, int64_t deadline_us, std::function<void(PeerAnswer)> done)
    : OutgoingLink(context),
      question_(question),
      number_(number),
      deadline_us_(deadline_us),
      done_(std::move(done)) {
  answer_.address = std::move(address);
}

void AskLink::OnAdmitted() {
  Send(Ask{static_cast<uint8_t>(question_), number_, context_->facts()});
}

void AskLink::OnAdmittedMessage(Message& message) {
  auto* answer = std::get_if<Answer>(&message);
  if (answer == nullptr) {
    Close(absl::InvalidArgumentError("the peer answered with something else"));
    return;
  }
  answer_.facts = std::move(answer->facts);
  Finish(answer->ok ? absl::OkStatus() : absl::FailedPreconditionError(answer->text));
  Close(absl::OkStatus());
}

void AskLink::OnRefused(Refusal /*refusal*/, const std::string& text) {
  Finish(absl::PermissionDeniedError(text));
}

void AskLink::OnClosed(const absl::Status& why) {
  Finish(absl::UnavailableError(why.message()));
}

int64_t AskLink::timer_us() const {
  return std::min(deadline_us_, Link::timer_us());
}

void AskLink::OnTimer(int64_t now_us) {
  if (now_us >= deadline_us_) {
    Finish(absl::DeadlineExceededError("no answer in time"));
    Close(absl::DeadlineExceededError("no answer in time"));
  }
}

void AskLink::Finish(absl::Status status) {
  if (done_ != nullptr) {
    base::LogDebug(absl::StrFormat("asked %s: %s", answer_.address,
                                   status.ok() ? "answered" : std::string(status.message())));
    answer_.status = std::move(status);
    std::exchange(done_, nullptr)(std::move(answer_));
  }
}

TailLink::TailLink(EngineContext* context, ShardId shard, Seq from_seq, int64_t deadline_us,
                   std::function<bool(record::BatchRef)> next,
                   std::function<void(absl::Status)> done)
    : OutgoingLink(context),
      shard_(shard),
      from_seq_(from_seq),
      deadline_us_(deadline_us),
      next_(std::move(next)),
      done_(std::move(done)) {
}

void TailLink::OnAdmitted() {
  Request();
}

void TailLink::Request() {
  bytes_.clear();
  Send(TailRequest{shard_, from_seq_, kTailBytes});
}

void TailLink::OnAdmittedMessage(Message& message) {
  auto* piece = std::get_if<TailPiece>(&message);
  if (piece == nullptr || bytes_.size() + piece->bytes.size() > kTailBytesMax) {
    Close(absl::InvalidArgumentError("the peer answered with something else"));
    return;
  }
  if (!piece->ok) {
    Finish(absl::FailedPreconditionError(piece->text));
    Close(absl::OkStatus());
    return;
  }
  bytes_.insert(bytes_.end(), piece->bytes.begin(), piece->bytes.end());
  if (!piece->is_last) {
    return;
  }
  if (bytes_.empty()) {
    Finish(absl::OkStatus());
    Close(absl::OkStatus());
    return;
  }
  const absl::Status status = TakeBatch();
  if (status.ok() && done_ != nullptr) {
    Request();
  } else {
    Finish(status);
    Close(status);
  }
}

absl::Status TailLink::TakeBatch() {
  Seq seq = from_seq_;
  for (std::span<const uint8_t> rest = bytes_; !rest.empty(); ++seq) {
    record::Record record;
    size_t size_bytes = 0;
    if (record::Decode(rest, &record, &size_bytes) != record::DecodeResult::kOk ||
        record.seq != seq) {
      return absl::DataLossError(
          absl::StrFormat("shard %d: the peer's record %d is damaged or missing", shard_, seq));
    }
    rest = rest.subspan(size_bytes);
  }
  auto batch = std::make_shared<record::Batch>();
  batch->shard = shard_;
  batch->first_seq = from_seq_;
  batch->last_seq = seq - 1;
  batch->bytes = std::move(bytes_);
  bytes_.clear();
  from_seq_ = seq;
  if (!next_(std::move(batch))) {
    Finish(absl::OkStatus());
  }
  return absl::OkStatus();
}

void TailLink::OnRefused(Refusal /*refusal*/, const std::string& text) {
  Finish(absl::PermissionDeniedError(text));
}

void TailLink::OnClosed(const absl::Status& why) {
  Finish(absl::UnavailableError(why.message()));
}

int64_t TailLink::timer_us() const {
  return std::min(deadline_us_, Link::timer_us());
}

void TailLink::OnTimer(int64_t now_us) {
  if (now_us >= deadline_us_) {
    Close(absl::DeadlineExceededError("the tail did not arrive in time"));
    return;
  }
  Link::OnTimer(now_us);
}

void TailLink::Finish(absl::Status status) {
  if (done_ != nullptr) {
    std::exchange(done_, nullptr)(std::move(status));
  }
}

void AskAll(EngineContext* context, const std::vector<std::string>& addresses,
            PeerQuestion question, uint32_t number, int64_t deadline_us,
            std::function<void(std::vector<PeerAnswer>)> done) {
  struct Round {
    std::vector<PeerAnswer> answers;
    size_t pending = 0;
    std::function<void(std::vector<PeerAnswer>)> done;
  };
  auto round = std::make_shared<Round>();
  round->answers.resize(addresses.size());
  round->pending = addresses.size();
  round->done = std::move(done);
  if (addresses.empty()) {
    round->done({});
    return;
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    auto answered = [round, i](PeerAnswer answer) {
      round->answers[i] = std::move(answer);
      if (--round->pending == 0) {
        std::exchange(round->done, nullptr)(std::move(round->answers));
      }
    };
    context->host->Connect(addresses[i],
                           std::make_unique<AskLink>(context, addresses[i], question, number,
                                                     deadline_us, std::move(answered)));
  }
}

}  // namespace kvstored::replication
