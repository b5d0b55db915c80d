// Asks a running job to let members leave by plan, from outside of it: who knows the job's secret may. One
// question, two answers: who leaves, and, later, that they are out.
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

  /// The next answer. `timed_out`: not yet; `disconnected`: the job ended, or cannot be reached, and nothing
  /// more will come; `precondition`: it refused to talk, or said what is no answer, and nothing more is
  /// taken.
  expected<draining> next(std::chrono::nanoseconds longest);

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace farandole
