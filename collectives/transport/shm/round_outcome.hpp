// The outcome of a round on the fast path. Members read each other's cells at different times: one member
// may see the last cell published just after another member has stopped waiting for it. So no member may
// conclude from the cells alone whether a round succeeded. The outcome is one word in shared memory that is
// decided once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "collectives/transport/wait/lock_free.hpp"
#include "collectives/transport/wait/word_mix.hpp"

namespace farandole {

enum class round_outcome : std::uint32_t {
  complete = 1, ///< every member reached the last stage: the operation succeeds on every member
  given_up = 2  ///< a member stopped waiting first: the operation succeeds on no member
};

/// The outcome of the latest round in one half of a cell. It lives in shared memory; zero bytes are a valid
/// initial value. Any thread of any member may call it. The word changes only by compare-and-exchange, at
/// most once in a round, so a crash of a member leaves the round either undecided or decided for all
/// members.
template <class Atomics>
class basic_round_decision {
public:
  /// Decides the round unless it is already decided, and returns the outcome that holds. A caller may propose
  /// `complete` only after it has seen (acquire) that every member reached the last stage. The decision is a
  /// release, and a caller that gets `complete` back acquires it, so it sees the same progress.
  round_outcome decide(std::uint32_t id, std::uint64_t round, round_outcome proposal) {
    const std::uint64_t proposed = word_of(id, round, proposal);
    std::uint64_t observed = word_.load(std::memory_order_acquire);
    for (;;) {
      if (const auto decided = read(observed, id, round))
        return *decided;
      if (word_.compare_exchange_weak(observed, proposed, std::memory_order_release,
                                      std::memory_order_acquire))
        return proposal;
    }
  }

  /// The decision so far (acquire).
  std::optional<round_outcome> decided(std::uint32_t id, std::uint64_t round) const {
    return read(word_.load(std::memory_order_acquire), id, round);
  }

private:
  // The low half holds the round (modulo 2^30) and the outcome. The high half holds the id, XORed
  // with a hash of the low half. If a faulty process overwrites one half, the word most probably belongs to
  // another id, and the round counts as undecided. 0: no round was decided yet.
  static constexpr unsigned outcome_bits = 2;
  static constexpr std::uint64_t round_mask = (std::uint64_t{1} << 30) - 1;

  static constexpr std::uint64_t word_of(std::uint32_t id, std::uint64_t round, round_outcome outcome) {
    const auto low = static_cast<std::uint32_t>((round & round_mask) << outcome_bits) |
                     static_cast<std::uint32_t>(outcome);
    return (std::uint64_t{id ^ mix_word(low)} << 32) | low;
  }
  static constexpr std::uint32_t id_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 32) ^ mix_word(static_cast<std::uint32_t>(word));
  }
  static constexpr std::optional<round_outcome> read(std::uint64_t observed, std::uint32_t id,
                                                     std::uint64_t round) {
    if (id_of(observed) != id)
      return std::nullopt;
    const std::uint64_t ahead = ((observed >> outcome_bits) - round) & round_mask;
    if (ahead == 0 && outcome_of(observed) != 0)
      return static_cast<round_outcome>(outcome_of(observed));
    // The word may already belong to a later round of this id. No round of an id follows one that was given up, so
    // this round was complete.
    return ahead != 0 && ahead <= round_mask / 2 ? std::optional(round_outcome::complete) : std::nullopt;
  }
  static constexpr std::uint64_t outcome_of(std::uint64_t word) { return word & 3; }

  typename Atomics::template atomic<std::uint64_t> word_{0};
};

using round_decision = basic_round_decision<machine_atomics>;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(round_decision) == 8);

} // namespace farandole
