// One message that the leader takes: from whom, and what has come of it so far.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/negotiation/negotiation_result.hpp"
#include "messages/values/breach.hpp"

namespace farandole {

struct negotiation_step {
  std::int32_t member; ///< who sent it, or is looked at; by position
  std::chrono::nanoseconds current_time;
  std::size_t expected = 0; ///< tensors that it may make ready
  bool joins = false;       ///< the member, at the end of this message
  negotiation_result result;

  /// `rank` (global) broke the protocol: nothing that follows is taken.
  void blame(std::int32_t rank, const std::string& offence) {
    result.breach = breach::of(rank, offence);
    result.broken_by = rank;
  }
};

} // namespace farandole
