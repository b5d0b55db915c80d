// What a member is told when another one has left the job and so ended the generation: who, how, what was
// pending here, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/departure.hpp"

namespace farandole {

struct departure_report {
  std::string member;               ///< "rank 1 on alpha": who left first
  departure manner;                 ///< of that one
  bool own = false;                 ///< it is this process
  std::vector<std::string> pending; ///< names of operations that were pending here
  std::uint64_t submitted = 0;      ///< operations, here; to the global set
};

/// With what everything fails that was pending when the generation ended, or is submitted afterwards.
error departure_error(departure_report report);

} // namespace farandole
