// The thread affinity setting lists one core for each rank of a host. The runtime's threads of local rank i run on the
// core of entry i only: the event loop and the lanes. A list that is wrong pins no thread, because training is correct
// without it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/welcome.hpp"

namespace farandole {

class settings;

/// The core ids of a list such as "0" or "0,2". Nothing if the text is not such a list.
std::optional<std::vector<int>> parse_core_list(std::string_view text);

/// The core of this member's threads. `allowed`: the cores that this process may use, in ascending order. The error
/// says why no thread is pinned. The setting must not be empty.
expected<int> choose_core(const settings& values, const member& self, std::span<const int> allowed);

} // namespace farandole
