#include "collectives/plan/generation_gate.hpp"

#include <cassert>
#include <string>
#include <utility>

namespace farandole {

expected<generation_gate::answer> generation_gate::offer(const envelope& message) {
  if (message.generation() == current_ && current_ != 0)
    return answer::pass;
  if (message.generation() <= current_)
    return answer::drop;
  const auto bytes = message.bytes().size();
  if (early_.size() >= most_.messages || bytes > most_.bytes - early_bytes_)
    return error{error_kind::overloaded,
                 "too much came early: a message of generation " + std::to_string(message.generation()) +
                     " from rank " + std::to_string(message.source()) + " while in generation " +
                     std::to_string(current_) + " would be number " + std::to_string(early_.size() + 1) +
                     " of at most " + std::to_string(most_.messages) + ", with " +
                     std::to_string(early_bytes_ + bytes) + " bytes of at most " +
                     std::to_string(most_.bytes)};
  early_.push_back(message);
  early_bytes_ += bytes;
  return answer::held;
}

std::vector<envelope> generation_gate::enter(std::uint64_t generation) {
  assert(generation > current_);
  current_ = generation;
  std::vector<envelope> due;
  std::deque<envelope> later;
  for (auto& message : std::exchange(early_, {})) {
    if (message.generation() > generation) {
      later.push_back(std::move(message));
      continue;
    }
    early_bytes_ -= message.bytes().size();
    if (message.generation() == generation)
      due.push_back(std::move(message));
  }
  early_ = std::move(later);
  return due;
}

} // namespace farandole
