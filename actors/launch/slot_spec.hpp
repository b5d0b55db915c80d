// What a slot is to start, and what to do with what comes out of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "actors/launch/process.hpp"

namespace farandole {

struct slot_spec {
  std::int32_t slot = 0;
  process_spec process;
  std::string label;       ///< "0": what stands between the brackets of the prefix
  bool timestamp = false;  ///< in front of the prefix
  std::string host;        ///< its name, for people
  std::string folder;      ///< of the copies; empty: there are none
  int files[2] = {-1, -1}; ///< copies of output and errors go here; owned by the writer
  /// How long output may stay open after the process has ended, because others still hold it.
  std::chrono::nanoseconds linger = std::chrono::seconds{2};
  /// Called on the loop when the process runs; may be empty.
  std::function<void(pid_t process)> started = {};
};

} // namespace farandole
