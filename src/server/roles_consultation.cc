// A primary that starts again asks its members before it opens an epoch (P17): is there a newer
// primary, who holds a longer tail, and do they promise to follow nobody else meanwhile.
#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "server/promotion_check.h"
#include "server/roles.h"

namespace kvstored::server {
namespace {

constexpr int64_t kFetchAgainUs = 50'000;

}  // namespace

using replication::PeerAnswer;
using replication::PeerQuestion;

// One start-up's questions to the members. Answers may come after the operation has ended: each
// callback keeps it alive.
struct Roles::Consultation : std::enable_shared_from_this<Roles::Consultation> {
  std::vector<std::string> addresses;
  std::vector<PeerAnswer> answers;
  bool asking = false;
  bool answered = false;
  int64_t next_us = 0;
  // Fetching: shard by shard from the member that has the longest tail.
  uint32_t shard = 0;
  std::optional<uint32_t> last_fetched;
  bool fetching = false;
  absl::Status fetched;
  uint32_t number = 0;
};

void Roles::AddConsultation(Operation* operation) {
  auto consultation = std::make_shared<Consultation>();
  operation->Then([this, consultation] { return AskMembers(consultation.get()); });
  operation->Then([this] {
    consulting_ = false;
    opening_epoch_ = true;
    return Progress::Done();
  });
  operation->Then([this, consultation] { return FetchTails(consultation.get()); });
  operation->Then([this, consultation] { return AskPromises(consultation.get()); });
}

Progress Roles::AskMembers(Consultation* consultation) {
  if (core_->restart_wanted.load(std::memory_order_relaxed)) {
    return Progress::Failed(absl::AbortedError("restarting"));
  }
  if (consultation->answered) {
    consultation->answered = false;
    const Progress judged = JudgeAnswers(consultation);
    if (judged.kind != Progress::Kind::kAgain) {
      return judged;
    }
    consultation->next_us = core_->now_us() + 1'000'000;
  }
  if (consultation->asking || core_->now_us() < consultation->next_us) {
    return Progress::Again();
  }
  // Anew each time: kvctl member drop works here. All known nodes are asked, but only members must
  // answer: who was promoted elsewhere meanwhile is found even with an empty set.
  consultation->addresses = KnownAddresses();
  if (consultation->addresses.empty() && core_->identity->meta().members.empty()) {
    return Progress::Done();
  }
  consultation->asking = true;
  core_->replication->AskPeers(
      consultation->addresses, PeerQuestion::kWhoAreYou, 0, 2'000'000,
      [consultation = consultation->shared_from_this()](std::vector<PeerAnswer> answers) {
        consultation->answers = std::move(answers);
        consultation->asking = false;
        consultation->answered = true;
      });
  return Progress::Again();
}

Progress Roles::JudgeAnswers(Consultation* consultation) {
  for (const PeerAnswer& answer : consultation->answers) {
    if (answer.status.ok() && StepAside(answer.facts, answer.address)) {
      return Progress::Failed(absl::AbortedError("a newer primary exists"));
    }
  }
  const log::Meta meta = core_->identity->meta();
  const std::vector<replication::EpochEntry> own =
      ToReplication(core_->identity->manifest().epochs);
  for (const PeerAnswer& answer : consultation->answers) {
    if (answer.status.ok() && answer.facts.serving && answer.facts.data_set_id == meta.data_set &&
        !replication::ContainsNewestOf(own, answer.facts.epochs)) {
      // Two primaries of one data set: never a second one that takes writes.
      static base::LogLimiter limiter(10'000'000);
      limiter.Warning(absl::StrFormat(
          "ALARM primary: %s serves a history of its own since epoch %d: reads only; kvctl join "
          "--discard-local-data on the one to give up",
          answer.address, answer.facts.epochs.back().epoch.number));
      return Progress::Again();
    }
  }
  for (const PeerAnswer& answer : consultation->answers) {
    if (answer.status.ok() && answer.facts.opening_epoch && answer.facts.store_id != meta.store &&
        answer.facts.data_set_id == meta.data_set) {
      return Progress::Again();  // what comes of it is to be followed, or to be alarmed about
    }
  }
  std::vector<PeerAnswer> members;
  for (const log::Member& member : meta.members) {
    const auto found = std::find_if(
        consultation->answers.begin(), consultation->answers.end(), [&](const PeerAnswer& a) {
          // No history: it lost what it had, and adopted ours empty.
          return a.status.ok() && a.facts.store_id == member.store &&
                 a.facts.data_set_id == meta.data_set && !a.facts.epochs.empty();
        });
    if (found == consultation->answers.end()) {
      static base::LogLimiter limiter(10'000'000);
      limiter.Warning(absl::StrFormat(
          "primary: member %s has not answered: reads only; kvctl member drop takes it out of the "
          "set",
          member.address));
      return Progress::Again();
    }
    if (found->facts.serving || !replication::ContainsNewestOf(own, found->facts.epochs)) {
      // Promoted without the newest epoch of this node (P15): nothing of its tail belongs here, and
      // it will promise nothing. Asked again, because an operator may change that.
      static base::LogLimiter limiter(10'000'000);
      limiter.Warning(absl::StrFormat(
          "ALARM primary: member %s has a history of its own since epoch %d: reads only; kvctl "
          "join "
          "%s --discard-local-data makes this node its replica, kvctl member drop --force goes on "
          "without it",
          member.address, found->facts.epochs.empty() ? 0 : found->facts.epochs.back().epoch.number,
          member.address));
      return Progress::Again();
    }
    members.push_back(*found);
  }
  // P15: whoever answered follows no epoch below what it has seen or promised.
  const uint32_t highest =
      std::max(meta.highest_epoch, HighestEpochOf(meta.data_set, consultation->answers));
  consultation->answers = std::move(members);
  return Progress::From(
      core_->identity->Update([&](log::Meta* changed) { changed->highest_epoch = highest; }));
}

Progress Roles::FetchTails(Consultation* consultation) {
  while (!consultation->answers.empty() && consultation->shard < core_->shard_count()) {
    if (consultation->fetching) {
      return Progress::Again();
    }
    if (!consultation->fetched.ok()) {
      // A member went away meanwhile: from the beginning, in a new life of the node.
      base::LogWarning(absl::StrFormat("primary: a member's tail was not fetched: %s",
                                       std::string(consultation->fetched.message())));
      RequestRestart();
      return Progress::Failed(absl::AbortedError("restarting"));
    }
    const auto shard = static_cast<ShardId>(consultation->shard);
    log::Log* log = core_->log();
    Seq longest = log->appended(shard);
    std::string address;
    const std::vector<log::EpochEntry> own = core_->identity->manifest().epochs;
    for (const PeerAnswer& answer : consultation->answers) {
      // What a member that has not seen our newest epoch holds beyond its begin is of another
      // history: our own log reaches that begin, for it was persistent before the epoch was.
      const bool same_history = !own.empty() && !answer.facts.epochs.empty() &&
                                answer.facts.epochs.back().epoch == own.back().epoch;
      if (same_history && answer.facts.ends.size() > shard &&
          answer.facts.ends[shard].end > longest) {
        longest = answer.facts.ends[shard].end;
        address = answer.address;
      }
    }
    if (address.empty()) {
      ++consultation->shard;
      continue;
    }
    // The log may have had no room for all of it (P25): the rest is fetched when it has. An epoch
    // that opened without it would cut off what the member holds and clients were promised.
    if (consultation->last_fetched == shard && core_->now_us() < consultation->next_us) {
      return Progress::Again();
    }
    consultation->last_fetched = shard;
    consultation->next_us = core_->now_us() + kFetchAgainUs;
    base::LogInfo(absl::StrFormat("fetching shard %d, seq %d to %d, from %s", shard,
                                  log->appended(shard) + 1, longest, address));
    consultation->fetching = true;
    core_->replication->FetchTail(
        address, shard, log->appended(shard) + 1, 10'000'000,
        [this, shard](record::BatchRef batch) {
          if (core_->log()->Reserve(batch->bytes.size()) != OpResult::kOk) {
            core_->background_event.Set();
            return false;
          }
          core_->log()->Submit(batch);
          core_->log()->Wake();
          core_->threads->RunOnShard(shard,
                                     [batch](shard::Shard& target) { target.Receive(batch); });
          return true;
        },
        [consultation = consultation->shared_from_this()](absl::Status status) {
          consultation->fetching = false;
          consultation->fetched = std::move(status);
        });
  }
  return Progress::Done();
}

Progress Roles::AskPromises(Consultation* consultation) {
  if (consultation->answers.empty()) {
    return Progress::Done();
  }
  if (!consultation->asking && !consultation->answered) {
    consultation->number = core_->identity->NextEpochNumber();
    std::vector<std::string> addresses;
    for (const PeerAnswer& answer : consultation->answers) {
      consultation->number = std::max(consultation->number, answer.facts.promised + 1);
      addresses.push_back(answer.address);
    }
    // Kept before it is asked for: the epoch that we open has exactly this number or a higher one.
    const absl::Status saved =
        core_->identity->Update([&](log::Meta* meta) { meta->promise = consultation->number - 1; });
    if (!saved.ok()) {
      return Progress::Failed(saved);
    }
    consultation->asking = true;
    core_->replication->AskPeers(
        addresses, PeerQuestion::kPromise, consultation->number, 5'000'000,
        [consultation = consultation->shared_from_this()](std::vector<PeerAnswer> answers) {
          consultation->asking = false;
          consultation->answered = true;
          for (const PeerAnswer& answer : answers) {
            if (!answer.status.ok()) {
              consultation->fetched = answer.status;
            }
          }
        });
  }
  if (!consultation->answered) {
    return Progress::Again();
  }
  if (!consultation->fetched.ok()) {
    // A member went away meanwhile: from the beginning, in a new life of the node.
    base::LogWarning(
        absl::StrFormat("primary: no promise: %s", std::string(consultation->fetched.message())));
    RequestRestart();
    return Progress::Failed(absl::AbortedError("restarting"));
  }
  return Progress::Done();
}

}  // namespace kvstored::server
