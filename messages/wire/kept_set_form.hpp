// Encoding of process sets that outlive their generation. Only messages/ includes this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/wire/decoding.hpp"
#include "messages/wire/kept_set.hpp"

namespace farandole::wire_form {

void write(capnp::List<wire::KeptSet>::Builder to, const std::vector<kept_set>& values);

/// `below`: exclusive upper bound of the members, which are slots or ranks. Requires that ids and members
/// ascend, and that the lists are no longer than any job needs.
std::vector<kept_set> read(capnp::List<wire::KeptSet>::Reader from, std::int32_t below, validation& so_far);

} // namespace farandole::wire_form
