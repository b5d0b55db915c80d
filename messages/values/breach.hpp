// The error texts for a member that broke the protocol. Leaders and relays check the same rules, and share
// these texts.
#pragma once

#include <cstdint>
#include <string>

#include "messages/values/error.hpp"

namespace farandole::breach {

inline constexpr const char* not_a_member = "it is not in this process set";
inline constexpr const char* strange_ranks = "it speaks for ranks that are not below it";
inline constexpr const char* unplanned_bucket = "it names a bucket that was not planned";

/// The error that names `rank` (global) and its offence.
inline error of(std::int32_t rank, const std::string& offence) {
  return {error_kind::invalid_argument, "rank " + std::to_string(rank) + " broke the protocol: " + offence};
}

} // namespace farandole::breach
