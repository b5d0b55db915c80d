// What a member learns when it is let in, as plain values; their meaning is told in membership.capnp. All of
// a generation learn the same but for their own rank: that is one value, encoded once for all of them, so
// that a job of many members costs its rendezvous no more than its bytes.
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

/// Most members of a job.
inline constexpr std::int32_t member_limit = 65536;

/// Whether this may be somebody's rank, or a slot.
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

/// Sets everybody's local and cross places, which follow from the hosts: local ranks are dense on each host;
/// a cross rank counts the hosts that have this local rank. In rank order.
void set_places(std::vector<member>& members);

struct setting_value {
  std::string name;
  std::string value;

  friend bool operator==(const setting_value&, const setting_value&) = default;
};

/// What all members of a generation are told alike.
struct roster {
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::vector<member> members; ///< position equals rank
  std::vector<setting_value> settings;
  bool must_sync = true;      ///< members do not all stand at the same step with the same state
  bool sets_kept = false;     ///< the process sets are those of the generation before; else all found theirs
  std::vector<kept_set> sets; ///< by id; ranks

  friend bool operator==(const roster&, const roster&) = default;
};

struct welcome : roster {
  std::int32_t rank = 0;
  bool joined_late = false; ///< the receiver comes to a job that has run without it

  friend bool operator==(const welcome&, const welcome&) = default;
};

/// As it travels in each welcome. The places of its members do not: they are what set_places() says.
std::vector<std::byte> encode(const roster& value);

/// A welcome of the member of this rank. `encoded` is a roster's.
envelope encode_welcome(const address& from, std::int32_t rank, bool joined_late,
                        std::span<const std::byte> encoded);

envelope encode(const address& from, const welcome& value);
expected<welcome> decode_welcome(const envelope& message);

} // namespace farandole
