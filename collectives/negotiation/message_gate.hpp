// A message belongs to one generation, and in it to one process set. Whoever receives it asks the gate: what
// is for a generation or a set that has ended is dropped, what is for one that has begun here passes, and
// what comes early waits here, in order and within bounds. Members enter a generation, and learn of a set's
// start by the global set's schedule, not all at the same moment. The numbers of both only go up, so what is
// early and what is late cannot be confused.
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
  /// What becomes of a message.
  enum class answer : std::uint8_t { pass, drop, held };

  /// Of all that waits.
  struct bounds {
    std::size_t messages = 4096;
    std::size_t bytes = std::size_t{64} << 20;
  };

  message_gate() : message_gate(bounds()) {}
  explicit message_gate(const bounds& bounds) : limits_(bounds) {}

  /// `overloaded` when what comes early would exceed the bounds: the sender's link must be closed, for a
  /// message cannot be left out.
  expected<answer> offer(const envelope& message);

  /// Goes on to a later generation, in which no set has begun. Returns what was held for it, for whichever
  /// set, in the order in which it came; offer() then tells what becomes of each. Messages for earlier
  /// generations are dropped, those for later ones stay.
  std::vector<envelope> enter_generation(std::uint64_t generation);

  /// A set of this generation has started here, or at least is known not to concern this member; a member
  /// hears of all starts in order. Returns what was held for it, in the order in which it came.
  std::vector<envelope> enter_set(std::uint32_t number);
  void leave_set(std::uint32_t number) { open_.erase(number); }

  std::size_t held() const { return early_.size(); }

private:
  answer judged(const envelope& message) const;
  error hold(const envelope& message);
  /// Of what waits, takes out and returns what passes by this judgement, and drops what it drops.
  template <class Judgement>
  std::vector<envelope> sort_out(Judgement judgement);

  bounds limits_;
  std::uint64_t generation_ = 0;      ///< 0 until the first is entered: then everything is early
  std::set<std::uint32_t> open_;      ///< sets
  std::optional<std::uint32_t> last_; ///< the highest number of a set that was entered
  std::size_t bytes_ = 0;             ///< of what waits
  std::deque<envelope> early_;
};

} // namespace farandole
