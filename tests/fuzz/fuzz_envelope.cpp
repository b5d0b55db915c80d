// Feeds arbitrary bytes to envelope::parse() and every decoder. Each must return a value or an error, and a
// decoded value must be the same after encoding and decoding it again.
#include <algorithm>
#include <cstdlib>

#include "messages/wire/drain.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/heartbeat.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/placement.hpp"
#include "messages/wire/reachability.hpp"
#include "messages/wire/records.hpp"
#include "messages/wire/rendezvous_recovery.hpp"
#include "messages/wire/stalls.hpp"

namespace {

using namespace farandole;

bool same_bytes(const envelope& a, const envelope& b) {
  return std::ranges::equal(a.bytes(), b.bytes());
}

/// Messages between a launcher and an agent have no sender's rank.
template <class Value>
envelope encoded(const address& from, const Value& value) {
  if constexpr (requires { encode(from, value); })
    return encode(from, value);
  else
    return encode(value);
}

// Compares encodings, since a NaN among the factors is not equal to itself.
template <class Decode>
void check(const envelope& message, Decode decode) {
  auto first = decode(message);
  if (!first) {
    if (first.error().kind != error_kind::invalid_argument || first.error().text.empty())
      std::abort();
    return;
  }
  address from{message.generation(), message.set(), message.source(), message.target()};
  auto again = encoded(from, *first);
  auto second = decode(again);
  if (!second || !same_bytes(again, encoded(from, *second)))
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto message = envelope::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!message)
    return 0;
  check(*message, decode_hello);
  check(*message, decode_welcome);
  check(*message, decode_refused);
  check(*message, decode_awaited);
  check(*message, decode_lost);
  check(*message, decode_changed);
  check(*message, decode_farewell);
  check(*message, decode_leaving);
  check(*message, decode_drain);
  check(*message, decode_draining);
  check(*message, decode_stall_notice);
  check(*message, decode_stall_report);
  check(*message, decode_write_records);
  check(*message, decode_records_written);
  check(*message, decode_record_request);
  check(*message, decode_record_part);
  check(*message, decode_record_part_taken);
  check(*message, decode_records_sent);
  check(*message, decode_greeting);
  check(*message, decode_heartbeat);
  check(*message, decode_path_addresses);
  check(*message, decode_member_path_addresses);
  check(*message, decode_returning);
  check(*message, decode_resumed);
  check(*message, decode_superseded);
  check(*message, decode_slot_report);
  check(*message, decode_formed);
  check(*message, decode_agent_hello);
  check(*message, decode_start_request);
  check(*message, decode_process_signal);
  check(*message, decode_process_input);
  check(*message, decode_process_input_taken);
  check(*message, decode_output_consumed);
  check(*message, decode_process_started);
  check(*message, decode_process_output);
  check(*message, decode_process_ended);
  check(*message, decode_process_finished);
  check(*message, decode_command_request);
  check(*message, decode_command_accepted);
  check(*message, decode_address_test);
  check(*message, decode_address_report);
  check(*message, decode_requests);
  check(*message, decode_gathered);
  for (std::int32_t members : {1, 3})
    check(*message, [members](const envelope& one) { return decode_schedule(one, members); });
  return 0;
}
