// Describes the process of a slot and the handling of its output.
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
  std::string label;       ///< the text between the brackets of the prefix, such as "0"
  bool timestamp = false;  ///< write the time before the prefix
  std::string host;        ///< name of the host, for messages
  std::string agent;       ///< name of the host whose agent starts the process; empty: this process starts it
  std::string input;       ///< with process.keeps_input: written to the standard input at the start
  std::string folder;      ///< folder of the output copies; empty: there are none
  int files[2] = {-1, -1}; ///< descriptors for copies of stdout and stderr, owned by the writer; -1: no copy
  /// Maximum time for which the slot waits for the end of the output after the process has ended. The output may stay
  /// open because processes that the worker has started still hold the pipes.
  std::chrono::nanoseconds linger = std::chrono::seconds{2};
  /// May be empty. Called on the loop when the process runs.
  std::function<void(pid_t process)> started = {};
  /// May be empty. Called on the loop with a text for the user, such as that the working directory does not exist.
  std::function<void(const std::string& text)> warn = {};
};

} // namespace farandole
