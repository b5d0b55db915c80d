#include "collectives/plan/set_gate.hpp"

#include <algorithm>
#include <string>

namespace farandole {

expected<set_gate::answer> set_gate::offer(const envelope& message) {
  if (open_.count(message.set()))
    return answer::pass;
  if (any_ && message.set() <= last_)
    return answer::drop;
  if (auto problem = early_.hold(
          message, "a message for process set number " + std::to_string(message.set()) + " from rank " +
                       std::to_string(message.source()) + ", which has not started here,"))
    return problem;
  return answer::held;
}

std::vector<envelope> set_gate::enter(std::uint32_t number) {
  open_.insert(number);
  last_ = any_ ? std::max(last_, number) : number;
  any_ = true;
  return early_.begin(number, last_, [](const envelope& each) { return each.set(); });
}

} // namespace farandole
