// A lock-free queue with many producers and one consumer, which takes all messages at once: producers push onto a
// stack, and the consumer exchanges the stack for an empty one and reverses it. Unbounded: the producers limit the
// number of messages.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace farandole {

template <class Message>
class mailbox {
public:
  mailbox() = default;
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;
  ~mailbox() { take_all(); }

  /// Publishes the message (release). Returns whether the mailbox was empty, so that the consumer has to be woken.
  bool push(Message message) {
    auto* added = new node{std::move(message), head_.load(std::memory_order_relaxed)};
    // The consumer may delete the node as soon as it is published, so `next` is read before.
    bool was_empty = false;
    do
      was_empty = !added->next;
    while (!head_.compare_exchange_weak(added->next, added, std::memory_order_release,
                                        std::memory_order_relaxed));
    return was_empty;
  }

  /// A hint without synchronisation: the answer may be out of date.
  bool seems_empty() const { return !head_.load(std::memory_order_relaxed); }

  /// All messages, oldest first (acquire).
  std::vector<Message> take_all() {
    std::vector<Message> all;
    for (auto* entry = head_.exchange(nullptr, std::memory_order_acquire); entry;) {
      all.push_back(std::move(entry->message));
      delete std::exchange(entry, entry->next);
    }
    std::reverse(all.begin(), all.end());
    return all;
  }

private:
  struct node {
    Message message;
    node* next;
  };
  std::atomic<node*> head_{nullptr};
};

} // namespace farandole
