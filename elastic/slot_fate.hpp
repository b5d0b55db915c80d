// What the rendezvous knows of the end of a slot's part in a generation, or in the job: for whoever judges
// which process made a job fail.
#pragma once

#include <cstdint>
#include <optional>

#include "messages/wire/departure.hpp"

namespace farandole {

struct slot_fate {
  std::int32_t slot = 0;
  std::int32_t culprit = -1;     ///< the slot by whose end it ended; may be the slot itself
  bool lost = false;             ///< the culprit did not leave in order
  std::optional<departure> left; ///< the culprit left in order, and how
  bool interrupted = false;      ///< operations that were pending in this slot's process failed
};

} // namespace farandole
