// The order in which the parts of a schedule are applied. It is the order of the fields of Schedule in
// negotiation.capnp, and a test compares the two. No other code repeats it: code that applies a schedule, or
// splits one, visits the parts with for_each_part().
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "messages/wire/negotiation.hpp"

namespace farandole {

enum class schedule_part : std::uint8_t {
  assignments,
  dissolved,
  forget,
  retract,
  failures,
  absent,
  ask,
  results,
  bundles,
  buckets,
  joined,
  restarts,
  sets,
  changed,
  departed,
  end
};

template <schedule_part Part>
using part_tag = std::integral_constant<schedule_part, Part>;

/// References to all fields of a schedule, in the order of `schedule_part`. A new field of `schedule` does
/// not compile until it has a name here, and with it a place in the order.
template <class Schedule>
constexpr auto parts_of(Schedule& plan) {
  auto& [assignments, forget, retract, failures, ask, bundles, joined, changed, sets, restarts, dissolved,
         buckets, end, departed, results, absent] = plan;
  return std::tie(assignments, dissolved, forget, retract, failures, absent, ask, results, bundles, buckets,
                  joined, restarts, sets, changed, departed, end);
}

template <schedule_part Part, class Schedule>
constexpr auto& part_of(Schedule& plan) {
  return std::get<static_cast<std::size_t>(Part)>(parts_of(plan));
}

/// Calls `visit(part_tag<...>{}, field)` for each part in order. A visitor that lacks a part does not
/// compile.
template <class Schedule, class Visit>
constexpr void for_each_part(Schedule& plan, Visit&& visit) {
  const auto parts = parts_of(plan);
  constexpr auto count = std::tuple_size_v<decltype(parts_of(plan))>;
  static_assert(count == static_cast<std::size_t>(schedule_part::end) + 1);
  [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    (visit(part_tag<static_cast<schedule_part>(Index)>{}, std::get<Index>(parts)), ...);
  }
  (std::make_index_sequence<count>{});
}

/// A visitor composed of one function for each part.
template <class... Functions>
struct for_parts : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
for_parts(Functions...) -> for_parts<Functions...>;

} // namespace farandole
