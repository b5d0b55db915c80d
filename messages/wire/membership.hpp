// Hello and the other membership messages as plain values; membership.capnp defines their meaning. Decoding
// checks all fields, as in negotiation.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/departure.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/kept_set.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/welcome.hpp"

namespace farandole {

inline constexpr std::size_t path_limit = 16; ///< maximum number of paths of a member
/// Longest address of a data path.
inline constexpr std::size_t path_address_limit_bytes = std::size_t{64} << 10;

struct hello {
  std::uint32_t wire_version = farandole::wire_version;
  std::int32_t slot = 0;
  std::int32_t size = 1;
  std::string host;      ///< identity; equal text means that memory can be shared
  std::string host_name; ///< for people
  std::string address;   ///< "ip:port" of the member's listener
  std::int64_t process = 0;
  std::uint64_t epoch = 0;
  std::uint64_t progress = 0; ///< of its training state; members with different numbers must sync
  bool keeps_sets = false;    ///< it continues with the process sets of the previous generation
  std::vector<kept_set> sets; ///< those, by id; members are slots
  /// Elastic: the generation in which it last received the training state of the others, or trained from its
  /// own; 0: it has no state.
  std::uint64_t state_generation = 0;

  friend bool operator==(const hello&, const hello&) = default;
};

struct refused {
  std::string reason;
  bool dismissed = false;    ///< by plan: the job continues without this process
  std::int32_t culprit = -1; ///< the slot whose end left this process without a place

  friend bool operator==(const refused&, const refused&) = default;
};

/// Maximum number of missing members in one message.
inline constexpr std::size_t awaited_limit = 32;

struct awaited_member {
  std::int32_t slot = 0;
  std::string host; ///< empty: not known

  friend bool operator==(const awaited_member&, const awaited_member&) = default;
};

struct awaited {
  std::uint32_t waited_seconds = 0;
  std::uint32_t arrived = 0;
  std::uint32_t size = 0;
  bool report = false;
  std::vector<awaited_member> missing; ///< by slot; at most `awaited_limit`

  friend bool operator==(const awaited&, const awaited&) = default;
};

struct lost {
  std::uint64_t generation = 0;
  std::int32_t rank = -1;
  std::string reason;
  bool stuck = false; ///< elastic: its process makes no progress, so the next generation does not wait for it

  friend bool operator==(const lost&, const lost&) = default;
};

struct changed {
  std::uint64_t generation = 0;
  std::uint64_t count = 0; ///< number of changes that wait for the end of the generation
  bool removals_only = false;

  friend bool operator==(const changed&, const changed&) = default;
};

struct farewell {
  std::uint64_t generation = 0;
  departed_member departed; ///< the member that left first; may be the sender
  bool interrupted = false; ///< the sender is another member, whose pending operations failed

  friend bool operator==(const farewell&, const farewell&) = default;
};

struct greeting {
  std::uint32_t wire_version = farandole::wire_version;
  std::int32_t rank = 0;

  friend bool operator==(const greeting&, const greeting&) = default;
};

/// The address of one of a member's data paths.
struct path_address {
  std::string path;    ///< its name in the table of paths
  std::string address; ///< bytes that only that path interprets

  friend bool operator==(const path_address&, const path_address&) = default;
};

/// The addresses of one member's data paths.
struct path_addresses {
  std::int32_t rank = 0;
  std::vector<path_address> paths; ///< each path once; at most path_limit

  /// Empty if the member has no address for this path.
  std::string address_of(std::string_view path) const;

  friend bool operator==(const path_addresses&, const path_addresses&) = default;
};

struct member_path_addresses {
  std::vector<path_addresses> members; ///< of a process set; global ranks, ascending

  friend bool operator==(const member_path_addresses&, const member_path_addresses&) = default;
};

envelope encode(const address& from, const hello& value);
envelope encode(const address& from, const refused& value);
envelope encode(const address& from, const awaited& value);
envelope encode(const address& from, const lost& value);
envelope encode(const address& from, const changed& value);
envelope encode(const address& from, const farewell& value);
envelope encode(const address& from, const greeting& value);
envelope encode(const address& from, const path_addresses& value);
envelope encode(const address& from, const member_path_addresses& value);

expected<hello> decode_hello(const envelope& message);
expected<refused> decode_refused(const envelope& message);
expected<awaited> decode_awaited(const envelope& message);
expected<lost> decode_lost(const envelope& message);
expected<changed> decode_changed(const envelope& message);
expected<farewell> decode_farewell(const envelope& message);
expected<greeting> decode_greeting(const envelope& message);
expected<path_addresses> decode_path_addresses(const envelope& message);
expected<member_path_addresses> decode_member_path_addresses(const envelope& message);

} // namespace farandole
