#include "collectives/plan/generation_gate.hpp"

#include <cassert>
#include <string>

namespace farandole {

expected<generation_gate::answer> generation_gate::offer(const envelope& message) {
  if (message.generation() == current_ && current_ != 0)
    return answer::pass;
  if (message.generation() <= current_)
    return answer::drop;
  if (auto problem = early_.hold(message, "a message of generation " + std::to_string(message.generation()) +
                                              " from rank " + std::to_string(message.source()) +
                                              " while in generation " + std::to_string(current_)))
    return problem;
  return answer::held;
}

std::vector<envelope> generation_gate::enter(std::uint64_t generation) {
  assert(generation > current_);
  current_ = generation;
  return early_.begin(generation, generation, [](const envelope& each) { return each.generation(); });
}

} // namespace farandole
