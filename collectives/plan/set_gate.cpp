#include "collectives/plan/set_gate.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace farandole {

expected<set_gate::answer> set_gate::offer(const envelope& message) {
  if (open_.count(message.set()))
    return answer::pass;
  if (any_ && message.set() <= last_)
    return answer::drop;
  const auto bytes = message.bytes().size();
  if (early_.size() >= most_.messages || bytes > most_.bytes - early_bytes_)
    return error{error_kind::overloaded,
                 "too much came early: a message for process set number " + std::to_string(message.set()) +
                     " from rank " + std::to_string(message.source()) +
                     ", which has not started here, would be number " + std::to_string(early_.size() + 1) +
                     " of at most " + std::to_string(most_.messages) + ", with " +
                     std::to_string(early_bytes_ + bytes) + " bytes of at most " +
                     std::to_string(most_.bytes)};
  early_.push_back(message);
  early_bytes_ += bytes;
  return answer::held;
}

std::vector<envelope> set_gate::enter(std::uint32_t number) {
  open_.insert(number);
  last_ = any_ ? std::max(last_, number) : number;
  any_ = true;
  std::vector<envelope> due;
  std::deque<envelope> later;
  for (auto& message : std::exchange(early_, {})) {
    if (message.set() > last_) {
      later.push_back(std::move(message));
      continue;
    }
    early_bytes_ -= message.bytes().size();
    if (message.set() == number)
      due.push_back(std::move(message));
  }
  early_ = std::move(later);
  return due;
}

} // namespace farandole
