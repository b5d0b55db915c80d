// Conversions of process sets between Python and the core: rules, which the core calls on a thread of its own, and
// sets that outlive their generation, which Python holds as tuples.
#pragma once

#include "bindings/native/nanobind.hpp"

#include <cstdint>
#include <tuple>
#include <vector>

#include "bindings/cxx/runtime.hpp"

namespace farandole::native {

/// A rule that calls `callable` with the facts of a member one by one, in the order of member_facts. The rule may be
/// copied and dropped without the GIL. An exception becomes an error.
set_rule rule_of(nanobind::handle callable);

/// Born, by rule, place, id, slots.
using kept_tuple = std::tuple<std::uint64_t, bool, std::uint32_t, std::uint32_t, std::vector<std::int32_t>>;

std::vector<kept_tuple> tuples_of(const std::vector<kept_set>& sets);
std::vector<kept_set> kept_from(const std::vector<kept_tuple>& sets);

} // namespace farandole::native
