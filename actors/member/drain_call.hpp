// A client that asks a running job, from outside, to let members leave by plan. It must know the job's secret. The
// job sends two answers to the request: first the list of leaving workers, and later that all of them have ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "messages/values/error.hpp"
#include "messages/wire/drain.hpp"

namespace farandole {

class drain_call {
public:
  struct target {
    std::string ip; ///< of the job's rendezvous
    std::uint16_t port = 0;
    std::string secret;
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds{10};
  };

  drain_call(const target& job, const drain& asked);
  ~drain_call();

  /// Waits for the next answer, at most `longest`. Errors:
  ///   `timed_out`     no answer yet; call again
  ///   `disconnected`  the job ended or cannot be reached; no further answer will arrive
  ///   `precondition`  the job refused the request or sent an invalid answer; later messages are ignored
  expected<draining> next(std::chrono::nanoseconds longest);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace farandole
