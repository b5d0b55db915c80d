// Sets that outlive their generation on the wire, for membership.cpp. Only messages/ includes this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/wire/decoding.hpp"
#include "messages/wire/kept_set.hpp"

namespace farandole::wire_form {

void write(capnp::List<wire::KeptSet>::Builder to, const std::vector<kept_set>& values);

/// `below`: what all members' numbers are, slots or ranks. Ids ascend, members ascend, and there are not more
/// of them than any job needs.
std::vector<kept_set> read(capnp::List<wire::KeptSet>::Reader from, std::int32_t below, verdict& so_far);

} // namespace farandole::wire_form
