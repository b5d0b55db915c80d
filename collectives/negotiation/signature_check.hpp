// Whether the members that asked for one name asked for the same thing. The checks have an order and the
// first that fails names the first two ranks that differ, with both values, so that a person can find the
// line to change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// What one member asked for.
struct asked_by {
  std::int32_t rank = 0; ///< global
  const farandole::signature* value = nullptr;
};

/// Kind `none` when all agree. `who` ascends by position in the set and is not empty; members that asked for
/// the same as one of them may be left out. `joined`: global ranks that have joined and bring nothing.
error disagreement(std::string_view name, std::span<const asked_by> askers,
                   std::span<const std::int32_t> joined);

} // namespace farandole
