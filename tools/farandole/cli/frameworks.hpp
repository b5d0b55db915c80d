// Which frameworks the installed Python packages can serve. The only truth is to try: a framework is there if
// its binding can be imported.
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
  std::string reason; ///< why it does not, in Python's last words
};

/// The interpreter beside the program that was called as `program`, else the one on PATH.
std::optional<std::string> find_python(const std::string& program);

/// Tries all of them at once; what has not ended at the deadline does not load.
std::vector<framework> probe_frameworks(const std::string& python, std::chrono::seconds deadline);

} // namespace farandole
