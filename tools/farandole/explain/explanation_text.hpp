// An explanation in words for a terminal, and as JSON for programs.
#pragma once

#include <string>

#include "tools/farandole/explain/explanation.hpp"

namespace farandole {

std::string text_of(const explanation& job);
std::string json_of(const explanation& job);

/// A line for each of these ranks of which something is known, followed by its stack.
std::string text_of_ranks(const explanation& job, const std::vector<std::int32_t>& ranks);

} // namespace farandole
