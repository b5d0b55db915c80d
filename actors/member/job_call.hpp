// A request to a running job from a program that knows the job's secret and is no member, such as farandole drain. The
// program sends one message to the rendezvous, and waits for answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

/// Where a job is found.
struct job_target {
  std::string ip; ///< of the job's rendezvous
  std::uint16_t port = 0;
  std::string secret;
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{10};
};

class job_call {
public:
  /// Returns whether this answer is the last one, or why it is invalid. Called on the event loop, for each answer.
  using answer_check = std::function<expected<bool>(const envelope& answer)>;

  /// After the last answer, an error or an invalid answer, further messages are ignored.
  job_call(const job_target& job, const envelope& request, answer_check is_last);
  ~job_call();

  /// Waits for the next answer, at most `longest`. Errors:
  ///   `timed_out`     no answer yet; call again
  ///   `disconnected`  the job ended or cannot be reached; no further answer will arrive
  ///   `precondition`  the job refused the request or sent an invalid answer
  expected<envelope> next(std::chrono::nanoseconds longest);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace farandole
