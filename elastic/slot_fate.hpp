// How a slot's part in a generation, or in the job, ended, as far as the rendezvous knows. The launcher uses it
// to find the process that made the job fail.
#pragma once

#include <cstdint>
#include <optional>

#include "messages/wire/departure.hpp"

namespace farandole {

struct slot_fate {
  std::int32_t slot = 0;
  std::int32_t culprit = -1;     ///< the slot whose end was the reason; may be the slot itself
  bool lost = false;             ///< the culprit did not leave in order
  std::optional<departure> left; ///< how the culprit left, if it left in order
  bool interrupted = false;      ///< pending operations of this slot's process failed
};

} // namespace farandole
