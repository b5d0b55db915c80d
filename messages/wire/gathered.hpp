// The requests that a relay has gathered from the members below it, as a plain value, and their encoding.
// negotiation.capnp defines their meaning. Decoding checks all fields, as in negotiation.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Global ranks first … first + count − 1.
struct rank_run {
  std::int32_t first = 0;
  std::uint32_t count = 1;

  friend bool operator==(const rank_run&, const rank_run&) = default;
};

/// A compact set of ranks: runs ascend and do not touch. Empty: every member of the set that is the sender or
/// below it.
using rank_runs = std::vector<rank_run>;

struct gathered_ids {
  std::vector<std::uint32_t> ids;
  rank_runs ranks;

  friend bool operator==(const gathered_ids&, const gathered_ids&) = default;
};

struct gathered_request {
  request asked_request;
  rank_runs ranks;

  friend bool operator==(const gathered_request&, const gathered_request&) = default;
};

/// Requests of one member that cannot be merged with those of others.
struct said_apart {
  std::int32_t rank = 0;
  requests batch;

  friend bool operator==(const said_apart&, const said_apart&) = default;
};

/// Relay → its parent. The fields are applied in this order.
struct gathered {
  std::vector<std::uint32_t> buckets; ///< every member below has requested all of their ids
  std::vector<gathered_ids> ids;
  std::vector<gathered_request> full;
  std::vector<said_apart> apart;

  bool empty() const { return buckets.empty() && ids.empty() && full.empty() && apart.empty(); }
  friend bool operator==(const gathered&, const gathered&) = default;
};

envelope encode(const address& from, const gathered& value);

/// `invalid_argument` when the envelope holds something else or breaks a rule; the text says which.
expected<gathered> decode_gathered(const envelope& message);

} // namespace farandole
