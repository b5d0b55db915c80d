#pragma once

#include <cstdint>

namespace farandole {

/// Identifies a link within its process. Never reused.
using link_id = std::uint64_t;

} // namespace farandole
