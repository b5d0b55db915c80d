// The messages about planned departures from an elastic job, as plain values; drain.capnp defines their
// meaning. Decoding checks all fields, as in membership.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct leaving {
  std::uint64_t generation = 0;
  std::int32_t slot = -1; ///< only in messages to the launcher; otherwise the sender's slot

  friend bool operator==(const leaving&, const leaving&) = default;
};

struct drain {
  std::uint32_t wire_version = farandole::wire_version;
  std::vector<std::int32_t> ranks;
  std::vector<std::string> hosts; ///< as the launcher names them
  std::uint64_t caller = 0;       ///< the requester that gets the answer, as numbered by the rendezvous

  friend bool operator==(const drain&, const drain&) = default;
};

struct leaver {
  std::int32_t rank = -1; ///< -1: no member yet
  std::int32_t slot = 0;
  std::string host;

  friend bool operator==(const leaver&, const leaver&) = default;
};

struct draining {
  std::string problem; ///< why no member leaves; empty otherwise
  std::vector<leaver> leavers;
  bool all_out = false;     ///< the leavers' processes have ended
  std::uint64_t caller = 0; ///< as in the request

  friend bool operator==(const draining&, const draining&) = default;
};

envelope encode(const address& from, const leaving& value);
envelope encode(const address& from, const drain& value);
envelope encode(const address& from, const draining& value);

expected<leaving> decode_leaving(const envelope& message);
expected<drain> decode_drain(const envelope& message);
expected<draining> decode_draining(const envelope& message);

} // namespace farandole
