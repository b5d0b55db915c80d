// Filters received messages. Every message belongs to one generation, and in it to one process set.
// - A message for a generation or a set that has ended is dropped.
// - A message for one that has started here passes.
// - A message for one that has not started here yet is held, in order and within bounds.
// Members enter a generation at different times, and also learn of the start of a set, from the global set's
// schedule, at different times. The numbers of generations and sets only increase, so early and late messages
// cannot be confused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

class message_gate {
public:
  /// The decision about a message.
  enum class answer : std::uint8_t { pass, drop, held };

  /// Limits for all held messages together.
  struct bounds {
    std::size_t messages = 4096;
    std::size_t bytes = std::size_t{64} << 20;
  };

  message_gate() : message_gate(bounds()) {}
  explicit message_gate(const bounds& bounds) : limits_(bounds) {}

  /// Decides about a message, and keeps it if the answer is `held`. Fails with `overloaded` if the held messages
  /// would exceed the bounds. The caller must then close the sender's link, because no message may be skipped.
  expected<answer> offer(const envelope& message);

  /// Enters a later generation, in which no set has started. Returns the messages that were held for any set of it,
  /// in the order of arrival; the caller must pass each of them to offer() again. Messages for earlier generations
  /// are dropped; those for later ones stay held.
  std::vector<envelope> enter_generation(std::uint64_t generation);

  /// A set of this generation has started here, or is known not to concern this member. A member learns of all
  /// starts in order. Returns the messages that were held for the set, in the order of arrival.
  std::vector<envelope> enter_set(std::uint32_t number);
  void leave_set(std::uint32_t number) { open_.erase(number); }

  std::size_t held() const { return early_.size(); }

private:
  answer judged(const envelope& message) const;
  error hold(const envelope& message);
  /// Applies `judgement` to all held messages: removes and returns those that pass, and drops those to be dropped.
  template <class Judgement>
  std::vector<envelope> sort_out(Judgement judgement);

  bounds limits_;
  std::uint64_t generation_ = 0;      ///< 0 until the first one is entered; until then all are early
  std::set<std::uint32_t> open_;      ///< numbers of the sets that were entered and not left
  std::optional<std::uint32_t> last_; ///< highest number of a set that was entered
  std::size_t bytes_ = 0;             ///< size of the held messages
  std::deque<envelope> early_;
};

} // namespace farandole
