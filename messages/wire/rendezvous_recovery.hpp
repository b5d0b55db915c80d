// The messages for the recovery of a rendezvous, and those between a launcher and a rendezvous that runs apart
// from it, as plain values; rendezvous_recovery.capnp defines their meaning. Decoding checks all fields, as in
// membership.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/failed_host.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct returning {
  std::uint32_t wire_version = farandole::wire_version;
  std::uint64_t generation = 0;
  std::int32_t rank = 0;
  std::int32_t slot = 0;
  std::string host;
  std::int64_t process = 0;
  std::uint64_t epoch = 0; ///< the highest that the member has obeyed

  friend bool operator==(const returning&, const returning&) = default;
};

struct resumed {
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::uint64_t changes = 0;
  bool removals_only = false;

  friend bool operator==(const resumed&, const resumed&) = default;
};

struct superseded {
  std::uint64_t epoch = 0; ///< of the rendezvous that the sender obeys

  friend bool operator==(const superseded&, const superseded&) = default;
};

/// A slot, as its launcher knows it.
struct reported_slot {
  std::int32_t number = 0;
  bool retired = false;
  bool ended = false;
  std::string manner; ///< how it ended

  friend bool operator==(const reported_slot&, const reported_slot&) = default;
};

struct slot_report {
  std::uint32_t wire_version = farandole::wire_version;
  std::uint64_t job = 0;
  std::uint64_t epoch = 0;
  std::vector<reported_slot> slots;
  bool complete = false;           ///< no more slots will be started
  std::vector<failed_host> failed; ///< by name; the whole blacklist

  friend bool operator==(const slot_report&, const slot_report&) = default;
};

struct formed {
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::vector<std::int32_t> slots; ///< by rank

  friend bool operator==(const formed&, const formed&) = default;
};

/// For messages to users: "3.1f0c22aa" is the third life of a journal.
std::string epoch_text(std::uint64_t epoch);
/// The epoch of the life after `last`, which is 0 before the first; `draw` is drawn at random for each life.
std::uint64_t next_epoch(std::uint64_t last, std::uint32_t draw);

envelope encode(const address& from, const returning& value);
envelope encode(const address& from, const resumed& value);
envelope encode(const address& from, const superseded& value);
envelope encode(const address& from, const slot_report& value);
envelope encode(const address& from, const formed& value);

expected<returning> decode_returning(const envelope& message);
expected<resumed> decode_resumed(const envelope& message);
expected<superseded> decode_superseded(const envelope& message);
expected<slot_report> decode_slot_report(const envelope& message);
expected<formed> decode_formed(const envelope& message);

} // namespace farandole
