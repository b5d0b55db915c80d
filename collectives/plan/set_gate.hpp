// A message belongs to one process set of the generation. Members learn of a set's start by the global set's
// schedule and not all at the same moment: what comes before this member has started the set waits here, in
// order and within bounds; what comes after its end is dropped. Numbers of sets only go up, so the two cannot
// be confused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "collectives/plan/early_mail.hpp"
#include "messages/envelope.hpp"
#include "messages/error.hpp"

namespace farandole {

class set_gate {
public:
  using bounds = gate_bounds;
  using answer = gate_answer;

  set_gate() : set_gate(bounds()) {}
  explicit set_gate(const bounds& most) : early_(most) {}

  /// `overloaded` when what comes early would exceed the bounds: the sender's link must be closed.
  expected<answer> offer(const envelope& message);

  /// The set has started here, or at least is known not to concern this member; a member hears of all starts
  /// in order. Returns what was held for it.
  std::vector<envelope> enter(std::uint32_t number);
  void leave(std::uint32_t number) { open_.erase(number); }

  std::size_t held() const { return early_.size(); }

private:
  std::set<std::uint32_t> open_;
  std::uint32_t last_ = 0; ///< highest number that was entered
  bool any_ = false;
  early_mail early_;
};

} // namespace farandole
