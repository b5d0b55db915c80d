#include "collectives/negotiation/message_gate.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

message_gate::answer message_gate::judged(const envelope& message) const {
  if (message.generation() == 0 || message.generation() < generation_)
    return answer::drop;
  if (message.generation() > generation_)
    return answer::held;
  if (open_.contains(message.set()))
    return answer::pass;
  return last_ && message.set() <= *last_ ? answer::drop : answer::held;
}

expected<message_gate::answer> message_gate::offer(const envelope& message) {
  const auto answer = judged(message);
  if (answer == answer::held)
    if (auto problem = hold(message))
      return problem;
  return answer;
}

error message_gate::hold(const envelope& message) {
  const auto bytes = message.bytes().size();
  if (early_.size() < limits_.messages && bytes <= limits_.bytes - bytes_) {
    early_.push_back(message);
    bytes_ += bytes;
    return {};
  }
  const auto sender = " from rank " + std::to_string(message.source());
  const auto text = message.generation() > generation_
                        ? "a message of generation " + std::to_string(message.generation()) + sender +
                              " while in generation " + std::to_string(generation_)
                        : "a message for process set number " + std::to_string(message.set()) + sender +
                              ", which has not started here,";
  return {error_kind::overloaded,
          "too much came early: " + text + " would be number " + std::to_string(early_.size() + 1) +
              " of at most " + std::to_string(limits_.messages) + ", with " + std::to_string(bytes_ + bytes) +
              " bytes of at most " + std::to_string(limits_.bytes)};
}

template <class Judgement>
std::vector<envelope> message_gate::sort_out(Judgement judgement) {
  std::vector<envelope> due;
  for (auto& message : std::exchange(early_, {})) {
    const auto entry = judgement(message);
    if (entry == answer::held) {
      early_.push_back(std::move(message));
      continue;
    }
    bytes_ -= message.bytes().size();
    if (entry == answer::pass)
      due.push_back(std::move(message));
  }
  return due;
}

std::vector<envelope> message_gate::enter_generation(std::uint64_t generation) {
  assert(generation > generation_);
  generation_ = generation;
  open_.clear();
  last_.reset();
  return sort_out([&](const envelope& message) {
    return message.generation() == generation ? answer::pass : judged(message);
  });
}

std::vector<envelope> message_gate::enter_set(std::uint32_t number) {
  open_.insert(number);
  last_ = std::max(last_.value_or(number), number);
  return sort_out([&](const envelope& message) { return judged(message); });
}

} // namespace farandole
