#include "actors/member/drain_call.hpp"

#include <utility>

namespace farandole {

namespace {

/// Accepts at most two answers: the second one reports that all leaving workers have ended.
job_call::answer_check two_answers() {
  return [answered = false](const envelope& message) mutable -> expected<bool> {
    const auto answer = decode_draining(message);
    if (!answer)
      return answer.error();
    const bool first = !std::exchange(answered, true);
    if (!first && !answer->all_out)
      return error{error_kind::precondition, "the rendezvous answered twice that workers are to leave"};
    return !first || !answer->problem.empty();
  };
}

} // namespace

drain_call::drain_call(const job_target& job, const drain& asked)
    : call_(job, encode(address{}, asked), two_answers()) {}

expected<draining> drain_call::next(std::chrono::nanoseconds longest) {
  const auto answer = call_.next(longest);
  return answer ? decode_draining(*answer) : expected<draining>(answer.error());
}

} // namespace farandole
