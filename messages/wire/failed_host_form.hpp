// Encoding of failed hosts, for rendezvous_recovery.cpp and failed_host.cpp. Only messages/ includes this header.
#pragma once

#include <cstddef>
#include <vector>

#include "messages/wire/blacklist.capnp.h"
#include "messages/wire/decoding.hpp"
#include "messages/wire/failed_host.hpp"

namespace farandole::wire_form {

void write(capnp::List<wire::FailedHost>::Builder to, const std::vector<failed_host>& hosts);
std::vector<failed_host> read(capnp::List<wire::FailedHost>::Reader from, validation& so_far);

} // namespace farandole::wire_form
