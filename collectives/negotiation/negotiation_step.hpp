// The state of the leader while it processes one message: the sender, and the result so far.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/negotiation/negotiation_result.hpp"
#include "messages/values/breach.hpp"

namespace farandole {

struct negotiation_step {
  std::int32_t member; ///< position of the member whose request is processed
  std::chrono::nanoseconds current_time;
  std::size_t expected = 0; ///< number of tensors that the message may make ready
  bool joins = false;       ///< the member joins at the end of this message
  negotiation_result result;

  /// `rank` (global) broke the protocol: the rest of the message is ignored.
  void blame(std::int32_t rank, const std::string& offence) {
    result.breach = breach::of(rank, offence);
    result.broken_by = rank;
  }
};

} // namespace farandole
