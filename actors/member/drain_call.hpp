// Asks a running job, from outside, to let members leave by plan. The job sends two answers to the request: first the list
// of leaving workers, and later that all of them have ended.
#pragma once

#include <chrono>

#include "actors/member/job_call.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/drain.hpp"

namespace farandole {

class drain_call {
public:
  drain_call(const job_target& job, const drain& asked);

  /// As job_call::next().
  expected<draining> next(std::chrono::nanoseconds longest);

private:
  job_call call_;
};

} // namespace farandole
