#include "command/tracking.h"

#include <algorithm>

#include "command/front_thread.h"
#include "command/session.h"
#include "resp/writer.h"

namespace kvstored::command {
namespace {

// The array of one key, as it stands in a push.
std::string KeyArray(std::string_view key) {
  std::string bytes;
  resp::Writer writer(&bytes, 3);
  writer.Array(1);
  writer.Bulk(key);
  return bytes;
}

}  // namespace

Tracking::Tracking(FrontThread* front)
    : front_(front), random_(base::SystemRandom()), notices_(front->thread().thread_count()) {
}

// --- The side of the shards. ---

void Tracking::TurnOn() {
  if (is_on_) {
    return;
  }
  is_on_ = true;
  tables_.resize(front_->thread().shards().size());
  for (const auto& shard : front_->thread().shards()) {
    shard->SetChangeListener(this);
  }
}

void Tracking::TurnOff() {
  is_on_ = false;
  for (const auto& shard : front_->thread().shards()) {
    shard->SetChangeListener(nullptr);
  }
  tables_.clear();
  keys_ = readers_ = 0;
  key_count.Set(0);
  reader_count.Set(0);
}

Tracking::Table& Tracking::TableOf(ShardId shard) {
  return tables_[shard / front_->thread().thread_count()];
}

void Tracking::Remember(ShardId shard, std::string_view key, Client client) {
  Table& table = TableOf(shard);
  auto entry = table.find(key);
  if (entry == table.end()) {
    const uint64_t keys_max = front_->set().tracking().keys_max.load(std::memory_order_relaxed);
    while (keys_max != 0 && keys_ > 0 && keys_ >= keys_max / front_->thread().thread_count()) {
      EvictOne();
    }
    entry = table.emplace(key, std::vector<Client>()).first;
    ++keys_;
  }
  std::vector<Client>& readers = entry->second;
  if (std::none_of(readers.begin(), readers.end(),
                   [&client](const Client& other) { return other.id == client.id; })) {
    readers.push_back(client);
    ++readers_;
  }
  key_count.Set(keys_);
  reader_count.Set(readers_);
}

// Tells its readers and forgets the key: who wants to hear more reads it again.
void Tracking::Invalidate(Table* table, Table::iterator entry) {
  for (const Client& client : entry->second) {
    notices_[client.thread].push_back({client.id, writer_, entry->first});
  }
  has_notes_ = true;
  readers_ -= entry->second.size();
  --keys_;
  table->erase(entry);
  key_count.Set(keys_);
  reader_count.Set(readers_);
}

// Any key, as in Redis: its readers are told that they cannot rely on it.
void Tracking::EvictOne() {
  size_t at = random_.Below(tables_.size());
  while (tables_[at].empty()) {
    at = (at + 1) % tables_.size();
  }
  Table& table = tables_[at];
  size_t bucket = random_.Below(table.bucket_count());
  while (table.bucket_size(bucket) == 0) {
    bucket = (bucket + 1) % table.bucket_count();
  }
  Invalidate(&table, table.find(table.begin(bucket)->first));
}

void Tracking::OnChange(ShardId shard, std::string_view key) {
  Table& table = TableOf(shard);
  if (const auto entry = table.find(key); entry != table.end()) {
    Invalidate(&table, entry);
  }
  if (front_->set().tracking().broadcasts.load(std::memory_order_acquire) > 0) {
    changes_.emplace_back(key, writer_);  // partner: Session::StartTracking
    has_notes_ = true;
  }
}

void Tracking::OnFlush(ShardId shard) {
  Table& table = TableOf(shard);
  for (const auto& [key, readers] : table) {
    readers_ -= readers.size();
  }
  keys_ -= table.size();
  table.clear();
  key_count.Set(keys_);
  reader_count.Set(readers_);
  // A primary flushes all shards as one, so that one of them may speak for all. Those of a replica
  // follow by themselves.
  if (shard != 0 && front_->set().options().gate->HasRole(Role::kPrimary)) {
    return;
  }
  for (std::vector<Notice>& notices : notices_) {
    notices.emplace_back();
  }
  has_notes_ = true;
}

void Tracking::OnTick() {
  if (is_on_ && front_->set().tracking().clients.load(std::memory_order_acquire) == 0) {
    TurnOff();  // partner: Session::CountTracking, before the threads are asked to turn it on
  }
  if (!has_notes_) {
    return;
  }
  has_notes_ = false;
  std::shared_ptr<Changes> changes;
  if (!changes_.empty()) {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    changes_.erase(std::unique(changes_.begin(), changes_.end(),
                               [](const auto& a, const auto& b) { return a.first == b.first; }),
                   changes_.end());
    changes = std::make_shared<Changes>(std::move(changes_));
    changes_.clear();
  }
  for (uint32_t i = 0; i < notices_.size(); ++i) {
    std::vector<Notice> notices = std::move(notices_[i]);
    notices_[i].clear();
    if (notices.empty() && changes == nullptr) {
      continue;
    }
    if (i == front_->index()) {
      Receive(notices, changes.get());
      continue;
    }
    auto* message = new Message;
    message->to = &front_->set().thread(i).tracking();
    message->notices = std::move(notices);
    message->changes = changes;
    message->run = &ReceiveTask;
    front_->thread().Post(i, message);
  }
}

// --- The side of the clients. ---

void Tracking::Add(Session* session) {
  sessions_[session->id()] = session;
}

void Tracking::Remove(Session* session) {
  sessions_.erase(session->id());
}

void Tracking::ReceiveTask(base::Task* task) {
  const std::unique_ptr<Message> message(static_cast<Message*>(task));
  message->to->Receive(message->notices, message->changes.get());
}

void Tracking::Receive(const std::vector<Notice>& notices, const Changes* changes) {
  for (const Notice& notice : notices) {
    if (notice.client == 0) {
      for (const auto& [id, session] : sessions_) {
        session->Invalidate("_\r\n");
      }
      continue;
    }
    const auto found = sessions_.find(notice.client);
    if (found == sessions_.end()) {
      continue;
    }
    const TrackingState& state = *found->second->tracking();
    const bool is_own = state.options.no_loop && notice.writer == notice.client;
    if (!state.options.broadcast && !is_own) {
      found->second->Invalidate(KeyArray(notice.key));
    }
  }
  if (changes != nullptr) {
    for (const auto& [id, session] : sessions_) {
      if (session->tracking()->options.broadcast) {
        TellBroadcast(session, *changes);
      }
    }
  }
}

// One message a prefix, all its keys in it.
void Tracking::TellBroadcast(Session* session, const Changes& changes) {
  const TrackingState& state = *session->tracking();
  for (const std::string& prefix : state.prefixes) {
    std::vector<std::string_view> keys;
    auto change = std::lower_bound(
        changes.begin(), changes.end(), prefix,
        [](const auto& entry, const std::string& wanted) { return entry.first < wanted; });
    for (; change != changes.end() && change->first.starts_with(prefix); ++change) {
      if (!state.options.no_loop || change->second != session->id()) {
        keys.push_back(change->first);
      }
    }
    if (keys.empty()) {
      continue;
    }
    std::string bytes;
    resp::Writer writer(&bytes, 3);
    writer.Array(keys.size());
    for (const std::string_view key : keys) {
      writer.Bulk(key);
    }
    session->Invalidate(std::move(bytes));
  }
}

void Tracking::Forward(const Session& session, std::string keys) {
  auto* forwarded = new Forwarded;
  const TrackingOptions& options = session.tracking()->options;
  forwarded->to = &front_->set().thread(options.redirect_thread);
  forwarded->target = options.redirect;
  forwarded->from = session.id();
  forwarded->from_thread = front_->index();
  forwarded->keys = std::move(keys);
  forwarded->run = &ArriveTask;
  front_->thread().Post(options.redirect_thread, forwarded);
}

void Tracking::ArriveTask(base::Task* task) {
  std::unique_ptr<Forwarded> forwarded(static_cast<Forwarded*>(task));
  FrontThread* here = forwarded->to;
  if (Session* target = here->Find(forwarded->target); target != nullptr) {
    target->PushInvalidation(forwarded->keys);
    return;
  }
  const uint32_t home = forwarded->from_thread;
  forwarded->to = &here->set().thread(home);
  forwarded->run = &BrokenTask;
  here->thread().Post(home, forwarded.release());
}

void Tracking::BrokenTask(base::Task* task) {
  const std::unique_ptr<Forwarded> forwarded(static_cast<Forwarded*>(task));
  const auto& sessions = forwarded->to->tracking().sessions_;
  if (const auto found = sessions.find(forwarded->from); found != sessions.end()) {
    found->second->OnRedirectBroken(forwarded->target);
  }
}

// --- TrackedRun ---

void TrackedRun::Begin(Tracking* tracking, const Session& session) {
  tracking_ = tracking;
  session_ = &session;
  tracking_->writer_ = session.id();
}

void TrackedRun::Remember(ShardId shard, std::span<const Key> keys) {
  for (const Key& key : keys) {
    tracking_->Remember(shard, key.bytes, {session_->id(), session_->home_thread()});
  }
}

}  // namespace kvstored::command
