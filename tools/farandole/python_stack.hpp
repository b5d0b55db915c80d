// The Python stacks of ranks, as py-spy reads them from their memory.
#pragma once

#include <chrono>
#include <cstddef>

#include "tools/farandole/explain/explanation.hpp"

namespace farandole {

struct stack_limits {
  std::size_t stacks = 8;                  ///< further ranks are left out
  std::size_t lines = 40;                  ///< of each stack
  std::chrono::milliseconds longest{5000}; ///< to read them, all at the same time
  bool gives_hints =
      true; ///< for a rank on another host, and without py-spy on PATH, says how to get the stack
};

/// Adds to a running job the stacks of ranks for which others wait and that run code of the user on this host. If py-spy may
/// not read the process, or takes too long, the line says so. Blocks for `longest` at most.
void add_python_stacks(explanation& job, const stack_limits& limits = {});

} // namespace farandole
