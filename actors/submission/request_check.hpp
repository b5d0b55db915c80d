// What is wrong with a submission as far as one member can tell: what ranks must agree on is the leader's to
// check (collectives/negotiation/signature_check.hpp). Every text names the tensor and what was found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "messages/values/error.hpp"
#include <farandole/farandole.hpp>

namespace farandole {

/// Position of a global rank in a set of `ranks` (ascending; none: every rank, by itself); -1 when it is not
/// in it.
std::int32_t place_of(std::int32_t rank, std::span<const std::int32_t> ranks);

/// Why a member of a set of `members` may not ask for this; kind `none` when it may. `ranks`: of a process
/// set, the members' global ranks; none for the global set.
error wrong_request(const submission& request, std::int32_t members,
                    std::span<const std::int32_t> ranks = {});

/// Rows for each member where this is an alltoall, equal parts written out; otherwise empty. For requests
/// that are not wrong.
std::vector<std::int64_t> splits_of(const submission& request, std::int32_t members);

} // namespace farandole
