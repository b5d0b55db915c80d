// A message belongs to one generation. Whoever receives it asks the gate: what is stale is dropped, what is
// current passes, what comes early waits here, in order and within bounds, until its generation is entered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/plan/early_mail.hpp"
#include "messages/envelope.hpp"
#include "messages/error.hpp"

namespace farandole {

class generation_gate {
public:
  using bounds = gate_bounds;
  using answer = gate_answer;

  generation_gate() : generation_gate(bounds()) {}
  explicit generation_gate(const bounds& most) : early_(most) {}

  /// 0 until the first enter(); then everything is early.
  std::uint64_t current() const { return current_; }

  /// `overloaded` when what comes early would exceed the bounds: the sender's link must be closed, for a
  /// message cannot be left out.
  expected<answer> offer(const envelope& message);

  /// Goes on to a later generation. Returns what was held for it, in the order in which it came; older
  /// messages are dropped, later ones stay.
  std::vector<envelope> enter(std::uint64_t generation);

  std::size_t held() const { return early_.size(); }

private:
  std::uint64_t current_ = 0;
  early_mail early_;
};

} // namespace farandole
