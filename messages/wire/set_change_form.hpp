// Encoding of changes of process sets. Only messages/ includes this header.
#pragma once

#include <cstdint>

#include "messages/wire/decoding.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole::wire_form {

void write(wire::SetChange::Builder to, const set_change& value);
void write(capnp::List<wire::SetEvent>::Builder to, const std::vector<set_event>& values);
void write(capnp::List<wire::SetFault>::Builder to, const std::vector<set_fault>& values);
void write(capnp::List<wire::SetRestart>::Builder to, const std::vector<set_restart>& values);

set_change read(wire::SetChange::Reader from, validation& so_far);
/// `members`: number of members of the job.
set_event read(wire::SetEvent::Reader from, std::int32_t members, validation& so_far);
set_fault read(wire::SetFault::Reader from, validation& so_far);
set_restart read(wire::SetRestart::Reader from, std::int32_t members, validation& so_far);

} // namespace farandole::wire_form
