// Roles: who this node is to the others: start-up as primary or replica, promotion, demotion,
// members (docs/protocol.md "History" and "Who serves"). Everything on the replication thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/node_state.h"
#include "server/loader.h"
#include "server/node_core.h"

namespace kvstored::server {

class Roles : public replication::NodeState {
 public:
  using Done = std::function<void(absl::Status)>;

  explicit Roles(NodeCore* core) : core_(core) {
  }

  // After loading (or at once on a node without data set): takes up the role that meta tells.
  void Start(const LoadResult* loaded);
  // P19. `ack_replicas`: the new set's size, absent: as it is.
  void Promote(std::optional<uint32_t> ack_replicas, bool accept_loss, Done done);
  // Drains (committed = applied everywhere) and becomes a replica of `address` (a replication port
  // where a node must answer; empty: of nobody until told).
  void Demote(const std::string& address, Done done);
  // Takes a member out of the set; while a restarted primary waits for its members, too (P17).
  void DropMember(const Id128& store, bool force, Done done);
  // Becomes a replica of the node at "host:port" (replication port). Who would lose something to a
  // typing error, its role of primary or its right to be promoted, asks first whether a node
  // answers there; others just try until one does.
  void Join(const std::string& address, bool discard_local_data, Done done);
  // P25: an I/O error on reserved space ends the role until the process restarts.
  void StepDown(const absl::Status& why);
  // Gate flags, announcements, every few milliseconds.
  void Tick();

  // --- replication::NodeState ---
  replication::NodeFacts Facts() override;
  void PersistMembers(const replication::MemberSet& members,
                      replication::NodeState::Done done) override;
  void PersistPromotable(bool promotable, replication::NodeState::Done done) override;
  void PersistPromise(uint32_t epoch_number, replication::NodeState::Done done) override;
  void OnNewerPrimary(const replication::NodeFacts& facts, const std::string& address) override;
  void OnAlarm(replication::Refusal refusal, const std::string& text) override;

  std::string state_text() const {
    return state_text_;
  }

 private:
  struct Consultation;
  struct WholeCut;

  void StartReplica();
  void StartPrimary();
  // P17: asks all members until they have answered, fetches the longest tail, has itself promised
  // the next epoch (roles_consultation.cc).
  void AddConsultation(Operation* operation);
  Progress AskMembers(Consultation* consultation);
  Progress JudgeAnswers(Consultation* consultation);
  Progress FetchTails(Consultation* consultation);
  Progress AskPromises(Consultation* consultation);
  // Adds the steps that apply what was received but for half transactions, cut those, and open an
  // epoch.
  void AddApplyWhole(Operation* operation, const std::shared_ptr<WholeCut>& cut);
  void AddOpenEpoch(Operation* operation);
  void AddCut(Operation* operation);
  // P25: what is submitted without a reservation waits for a full disk instead of failing on it.
  Progress AwaitRoom(bool for_cut);
  Progress CheckPeers(const std::vector<replication::PeerAnswer>& answers, bool accept_loss);
  absl::Status MayPromote(bool accept_loss) const;
  // `then` if another kvstored answers at this replication address; otherwise `done` has the error,
  // and nothing has changed.
  void IfAnswered(const std::string& address, const Done& done, std::function<void()> then);
  void Drain(const std::string& address, const Done& done);
  void Follow(const std::string& address, bool discard_local_data, const Done& done);
  absl::Status PersistPromotion(std::optional<uint32_t> ack_replicas);
  replication::MemberSet MembersFromMeta() const;
  std::vector<std::string> KnownAddresses() const;
  bool ReadsAllowed() const;
  void Announce();
  void SeekPrimary();
  void JudgeNewerPrimary(const replication::NodeFacts& facts, const std::string& address);
  bool StepAside(const replication::NodeFacts& newer, const std::string& address);
  void RequestRestart();

  NodeCore* const core_;
  // False while the data set is loaded: there is no log yet, so what is decided meanwhile goes to
  // meta, where Start finds it.
  bool started_ = false;
  bool discard_at_start_ = false;  // the next FollowPrimary gives this node's own data up
  bool busy_ = false;              // a role change is under way
  // It only asks so far: an operator may send this node elsewhere instead of waiting for answers.
  bool consulting_ = false;
  // Told to all who ask: another node must not open one beside it.
  bool opening_epoch_ = false;
  std::vector<std::string> unannounced_;
  int64_t announce_us_ = 0;
  bool announcing_ = false;
  int64_t seek_us_ = 0;
  bool seeking_ = false;
  std::string state_text_;
};

}  // namespace kvstored::server
