// The names of an operation's phases in the timeline and in the ranges for profilers: "ALLREDUCE", "LOCAL_ALLREDUCE".
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "collectives/operation.hpp"

namespace farandole {

/// The name of a path or an operation, as the names of phases are spelt.
inline std::string phase_word(std::string_view name) {
  std::string text(name);
  for (auto& letter : text) {
    const auto value = static_cast<unsigned char>(letter);
    letter = value < 0x80 && std::isalnum(value) ? static_cast<char>(std::toupper(value)) : '_';
  }
  return text;
}

/// The name of the operation.
inline std::string phase_name(operation requested, bool adasum) {
  return adasum ? "ADASUM" : phase_word(row_of(requested).name);
}

/// The name of the activity in which the path runs the operation.
inline std::string activity_name(std::string_view path, operation requested, bool adasum) {
  const auto word = phase_word(path);
  if (adasum)
    return word + "_ADASUM_ALLREDUCE";
  return word + "_" + (requested == operation::broadcast ? "BCAST" : phase_word(row_of(requested).name));
}

} // namespace farandole
