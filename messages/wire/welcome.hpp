// The message that admits a member, as plain values; membership.capnp defines their meaning. The roster in it is
// the same for all members of a generation, so the rendezvous encodes it once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/kept_set.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Maximum number of members of a job.
inline constexpr std::int32_t member_limit = 65536;

/// Whether this number is in the range of ranks and slots.
constexpr bool is_rank(std::int32_t number) {
  return number >= 0 && number < member_limit;
}

struct member {
  std::int32_t rank = 0;
  std::int32_t slot = 0;
  std::string host;
  std::string host_name;
  std::string address;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 1;
  std::int32_t cross_rank = 0;
  std::int32_t cross_size = 1;

  friend bool operator==(const member&, const member&) = default;
};

/// Sets the local and cross ranks and sizes of all members, which follow from their hosts. Local ranks are dense
/// on each host; a cross rank is dense among the members with the same local rank. `members` is in rank order.
void set_places(std::vector<member>& members);

struct setting_value {
  std::string name;
  std::string value;

  friend bool operator==(const setting_value&, const setting_value&) = default;
};

/// The part of a welcome that is the same for all members of a generation.
struct roster {
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::vector<member> members; ///< position equals rank
  std::vector<setting_value> settings;
  bool must_sync = true;      ///< members do not all have the same state at the same step
  bool sets_kept = false;     ///< the previous generation's sets continue; false: all found theirs
  std::vector<kept_set> sets; ///< by id; members are ranks

  friend bool operator==(const roster&, const roster&) = default;
};

struct welcome : roster {
  std::int32_t rank = 0;
  bool joined_late = false; ///< the receiver joins a job that has run without it

  friend bool operator==(const welcome&, const welcome&) = default;
};

/// The roster as each welcome contains it. Local and cross ranks are not sent: the receiver calls set_places().
std::vector<std::byte> encode(const roster& value);

/// The welcome of the member with this rank. `encoded` is the encoded roster.
envelope encode_welcome(const address& from, std::int32_t rank, bool joined_late,
                        std::span<const std::byte> encoded);

envelope encode(const address& from, const welcome& value);
expected<welcome> decode_welcome(const envelope& message);

} // namespace farandole
