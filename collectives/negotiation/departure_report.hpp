// The error that operations fail with after a member has left the job and thereby ended the generation. It names
// the member, how the member left, the operations that were pending here, and a remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/departure.hpp"

namespace farandole {

struct departure_report {
  std::string member;               ///< "rank 1 on alpha": the member that left first
  departure manner;                 ///< how it left
  bool own = false;                 ///< the member is this process
  std::vector<std::string> pending; ///< names of operations that were pending here
  std::uint64_t submitted = 0;      ///< operations that this rank submitted to the global set
};

/// The text of departure_error() begins so if this process left.
inline constexpr std::string_view left_by_itself = "Farandole has been shut down on this rank";
/// The whole text, if nothing was pending here.
inline constexpr std::string_view own_departure =
    "Farandole has been shut down on this rank; call init() again to go on";

/// The error of all operations that were pending when the generation ended or are submitted afterwards.
error departure_error(departure_report report);

} // namespace farandole
