// How events of the record name an operation, in their field `detail`.
#pragma once

#include <cstdint>

#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

constexpr std::uint8_t recorded_operation(operation requested, reduce_op reduction) {
  const auto number = static_cast<std::uint8_t>(requested);
  return reduction == reduce_op::adasum && row_of(requested).takes_adasum
             ? static_cast<std::uint8_t>(number | adasum_detail)
             : number;
}

} // namespace farandole
