// What a caller asks for, and what is wrong with it as far as one member can tell: what ranks must agree on
// is the leader's to check (collectives/plan/agreement.hpp). Every text names the tensor and what was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "messages/error.hpp"
#include "messages/signature.hpp"

namespace farandole {

/// See bindings/cxx/farandole.hpp.
struct intent {
  std::string_view name;
  farandole::signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::span<const std::int64_t> splits; ///< alltoall: rows for each member; empty: equal parts
};

/// Position of a global rank in a set of `ranks` (ascending; none: every rank, by itself); -1 when it is not
/// in it.
std::int32_t place_of(std::int32_t rank, std::span<const std::int32_t> ranks);

/// Why a member of a set of `members` may not ask for this; kind `none` when it may. `ranks`: of a process
/// set, the members' global ranks; none for the global set.
error wrong_request(const intent& what, std::int32_t members, std::span<const std::int32_t> ranks = {});

/// Rows for each member where this is an alltoall, equal parts written out; otherwise empty. For requests
/// that are not wrong.
std::vector<std::int64_t> splits_of(const intent& what, std::int32_t members);

} // namespace farandole
