#pragma once

#include <cstdint>

namespace farandole {

/// Numbers a link within its process; never reused.
using link_id = std::uint64_t;

} // namespace farandole
