// Checks whether the members that requested one name agree on the operation and its parameters. The checks run in
// a fixed order. The error of the first check that fails names the first two ranks that differ and both values, so
// that the user can find the line to change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// The request of one member.
struct asked_by {
  std::int32_t rank = 0; ///< global
  const farandole::signature* value = nullptr;
};

/// Kind `none` if all agree. `askers` ascend by position in the set and are not empty; members whose request equals
/// that of one of them may be omitted. `joined`: global ranks that have joined and send no data.
error disagreement(std::string_view name, std::span<const asked_by> askers,
                   std::span<const std::int32_t> joined);

} // namespace farandole
