// Finds the frameworks that the installed Python packages support. A framework counts as present only if its
// binding can be imported, which is tried in a new interpreter.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace farandole {

struct framework {
  std::string label;  ///< "PyTorch"
  std::string module; ///< "farandole.torch"
  bool loads = false;
  std::string reason; ///< why it does not load: the last line of Python's error output
};

/// The interpreter in the folder of `program` (argv[0]) or of this executable, else the one on PATH.
std::optional<std::string> find_python(const std::string& program);

/// Imports all bindings in parallel. An import that has not ended at the deadline counts as failed.
std::vector<framework> probe_frameworks(const std::string& python, std::chrono::seconds deadline);

} // namespace farandole
