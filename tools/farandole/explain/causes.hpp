// Why the pending tensors of a job could not be completed, in words.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/explain/explanation.hpp"

namespace farandole {

/// The causes, each as a sentence and once. Those that hold for the whole job come first.
std::vector<std::string> causes_of(const explanation& job);

} // namespace farandole
