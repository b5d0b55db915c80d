// Checks a submission as far as one member can tell; the leader checks the properties that ranks must agree on
// (collectives/negotiation/signature_check.hpp). Every error names the tensor and the faulty value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/submission/submission.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Position of a global rank in a set of `ranks`, which ascend; -1 if it is not in the set. If `ranks` is empty
/// (the global set), returns the rank itself.
std::int32_t rank_in_set(std::int32_t rank, std::span<const std::int32_t> ranks);

/// Why a member of a set of `members` may not submit this request; kind `none` if it may. `ranks`: the members'
/// global ranks for a process set; empty for the global set.
error wrong_request(const submission& request, std::int32_t members,
                    std::span<const std::int32_t> ranks = {});

/// Why these requests may not be a group of a set of `members`: memory that one of them writes is memory of another.
/// Kind `none` if they may. Only for requests that wrong_request() accepts.
error wrong_group(std::span<const submission> requests, std::int32_t members);

/// The bytes of the input.
std::size_t input_bytes(const submission& request);

/// The bytes that every member of a set of `members` writes to its output, if the caller gave one. Some members write one
/// row more of a reducescatter.
std::size_t output_bytes(const submission& request, std::int32_t members);

/// The rows for each member if this is an alltoall, with equal parts written out; otherwise empty. Only for requests
/// that wrong_request() accepts.
std::vector<std::int64_t> splits_of(const submission& request, std::int32_t members);

} // namespace farandole
