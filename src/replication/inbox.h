// Inbox: how other threads hand work to the replication thread. Many producers, one consumer; a
// push is one compare-and-swap, a take is one exchange for all that has come.
#pragma once

#include <atomic>
#include <utility>

namespace kvstored::replication {

template <typename T>
class Inbox {
 public:
  Inbox() = default;
  ~Inbox() {
    Drain([](T&) {});
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Thread-safe. True if it was empty: the consumer may sleep and must be woken.
  bool Push(T value) {
    Node* node = new Node{std::move(value), nullptr};
    Node* head = head_.load(std::memory_order_relaxed);
    do {
      node->next = head;
    } while (!head_.compare_exchange_weak(head, node, std::memory_order_release,
                                          std::memory_order_relaxed));  // partner: Drain
    return head == nullptr;
  }

  // Consumer. Gives everything pushed so far to `take`, in each producer's order. Returns whether
  // there was anything.
  template <typename Take>
  bool Drain(Take take) {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);  // partner: Push
    Node* ordered = nullptr;
    while (node != nullptr) {
      Node* next = node->next;
      node->next = ordered;
      ordered = node;
      node = next;
    }
    const bool any = ordered != nullptr;
    while (ordered != nullptr) {
      Node* next = ordered->next;
      take(ordered->value);
      delete ordered;
      ordered = next;
    }
    return any;
  }
  bool empty() const {
    return head_.load(std::memory_order_acquire) == nullptr;
  }

 private:
  struct Node {
    T value;
    Node* next;
  };
  std::atomic<Node*> head_{nullptr};
};

}  // namespace kvstored::replication
