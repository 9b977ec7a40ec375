// A task: a piece of work that travels to another thread through a mailbox. Intrusive, so that
// sending allocates nothing; whoever made it owns it again when `run` was called.
#pragma once

namespace kvstored::base {

struct Task {
  void (*run)(Task* self) = nullptr;
  Task* next = nullptr;  // used by queues
};

}  // namespace kvstored::base
