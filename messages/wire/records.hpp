// The messages that carry copies of event records, as plain values; records.capnp defines their meaning. Decoding checks
// all fields, as in membership.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Greatest number of bytes in one part of a record.
inline constexpr std::size_t most_record_part_bytes = std::size_t{256} << 10;
inline constexpr std::uint64_t default_trace_bytes = std::uint64_t{64} << 20;
/// Greatest size of one record's file.
inline constexpr std::uint64_t most_record_bytes = std::uint64_t{1} << 32;

/// What to do with the records: copy them as they are, begin to copy all later events, or end these traces and write them.
enum class record_action : std::uint8_t { copy, begin_traces, end_traces };

struct trace_limits {
  std::uint32_t steps = 0;                   ///< training steps of a rank; 0: no limit
  std::uint64_t bytes = default_trace_bytes; ///< of the events of a rank

  friend bool operator==(const trace_limits&, const trace_limits&) = default;
};

struct record_task {
  record_action action = record_action::copy;
  trace_limits limits; ///< to begin traces

  friend bool operator==(const record_task&, const record_task&) = default;
};

struct write_records {
  std::uint32_t wire_version = farandole::wire_version;
  std::string folder; ///< path on the launcher's host; exists and contains no records; empty: to begin traces
  std::uint64_t caller = 0; ///< the requester that gets the answer, as numbered by the rendezvous
  record_task task = {};

  friend bool operator==(const write_records&, const write_records&) = default;
};

struct records_written {
  std::string problem;              ///< why there are no files; empty otherwise
  std::uint32_t files = 0;          ///< number of files
  std::vector<std::string> notices; ///< missing records
  std::uint64_t caller = 0;         ///< as in the request

  friend bool operator==(const records_written&, const records_written&) = default;
};

struct record_request {
  std::uint32_t number = 0;
  record_task task = {};

  friend bool operator==(const record_request&, const record_request&) = default;
};

struct record_part {
  std::uint32_t request = 0;
  std::int32_t slot = 0;
  std::uint64_t offset = 0;
  std::string bytes; ///< at most most_record_part_bytes

  friend bool operator==(const record_part&, const record_part&) = default;
};

struct record_part_taken {
  std::uint32_t request = 0;

  friend bool operator==(const record_part_taken&, const record_part_taken&) = default;
};

struct records_sent {
  std::uint32_t request = 0;
  std::string problem; ///< why records are missing; empty otherwise

  friend bool operator==(const records_sent&, const records_sent&) = default;
};

envelope encode(const write_records& value);
envelope encode(const records_written& value);
envelope encode(const record_request& value);
envelope encode(const record_part& value);
envelope encode(const record_part_taken& value);
envelope encode(const records_sent& value);

expected<write_records> decode_write_records(const envelope& message);
expected<records_written> decode_records_written(const envelope& message);
expected<record_request> decode_record_request(const envelope& message);
expected<record_part> decode_record_part(const envelope& message);
expected<record_part_taken> decode_record_part_taken(const envelope& message);
expected<records_sent> decode_records_sent(const envelope& message);

} // namespace farandole
