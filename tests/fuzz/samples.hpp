// A valid message of every kind, with every field and list in use. The fuzzers start from these messages.
#pragma once

#include <vector>

#include "messages/wire/drain.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/heartbeat.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/placement.hpp"
#include "messages/wire/reachability.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

inline requests sample_requests() {
  requests value;
  value.ids = {1, 2, 70000};
  value.full = {
      {"weights",
       {operation::allreduce, dtype::float16, reduce_op::average, -1, 0.5, 2.0, memory_kind::device, {3, 4}},
       0,
       0,
       true,
       1},
      {"bias", {}, 7, 2, true, 0, true}};
  value.left = {{5, 9}};
  value.join = true;
  value.withdraw = {"gone"};
  value.leaves = {departure_kind::uncaught_exception, "KeyError: 'labels'", 17};
  value.buckets = {5};
  return value;
}

inline schedule sample_schedule() {
  schedule value;
  value.assignments = {{3, "weights", -1, 0, {}}, {4, "bias", 4096, 256, {}}};
  value.forget = {8};
  value.retract = {{9, 2}};
  value.failures = {{"odd", {error_kind::mismatch, "rank 0 has [2], rank 1 has [3]"}}};
  value.absent = {"unused"};
  value.ask = {11, 12};
  value.bundles.resize(3);
  value.bundles[0].entries = {{3, "", 10, {}, 0}, {0, "by name", 4, {}, 0}};
  value.bundles[1].sequence = 1;
  value.bundles[1].operation = operation::allgather;
  value.bundles[1].entries = {{0, "rows", 12, {2, 0, 1}, 6}};
  value.bundles[2].sequence = 2;
  value.bundles[2].operation = operation::broadcast;
  value.bundles[2].root = 1;
  value.bundles[2].entries = {{6, "", 1, {}, 0}};
  value.dissolved = {3};
  value.buckets = {{5, {3, 6}, std::chrono::milliseconds(20)}};
  value.joined = 2;
  value.end = true;
  value.departed = {{1, {departure_kind::script_ended, "", 4}}};
  return value;
}

inline gathered sample_gathered() {
  gathered value;
  value.ids = {{{1, 2, 70000}, {}}, {{3}, {{4, 2}, {7, 1}}}};
  value.full = {{sample_requests().full[0], {}}, {sample_requests().full[1], {{5, 1}}}};
  value.apart = {{6, sample_requests()}};
  value.buckets = {5, 6};
  return value;
}

inline std::vector<envelope> samples() {
  constexpr address from{3, 1, 2};
  welcome entry;
  entry.generation = 2;
  entry.epoch = entry.rank = 1;
  entry.settings = {{"fusion threshold", "134217728"}};
  for (std::int32_t rank = 0; rank < 3; ++rank)
    entry.members.push_back({rank, rank, "host", "alpha", "10.0.0.1:99", rank, 3, 0, 1});
  member_path_addresses all;
  for (std::int32_t rank = 0; rank < 3; ++rank)
    all.members.push_back(
        {rank, {{"local", "window"}, {"tcp", "10.0.0.1:4711"}, {"hierarchical", "10.0.0.1:4712"}}});
  return {
      encode(from, hello{wire_version, 1, 3, "host", "alpha", "10.0.0.1:99", 77, 1, 5, false, {}, 2}),
      encode(from, entry),
      encode(from, refused{"the job has ended"}),
      encode(from, awaited{5, 1, 3, true, {{1, "alpha"}, {2, ""}}}),
      encode(from, lost{3, 2, "was killed by signal 9", false}),
      encode(from, farewell{3, {1, {departure_kind::shutdown_called, "", 9}}, true}),
      encode(from, leaving{3}),
      encode(from, drain{wire_version, {0, 2}, {"alpha"}}),
      encode(agent_hello{wire_version,
                         "1",
                         "/bin/farandole",
                         "b",
                         "id",
                         {{"eth0", "10.0.0.2"}},
                         "10.0.0.1",
                         "10.0.0.2",
                         4,
                         2}),
      encode(start_request{3, {"sh", "-c", "true"}, {"A=b"}, "/tmp", 4096, true, "CALL", true, 2000}),
      encode(process_input{3, standard_input_stream, "hello", true}),
      encode(process_input_taken{3, channel_stream, 5}),
      encode(process_signal{3, 15}),
      encode(output_consumed{3, 1, 4096}),
      encode(process_started{3, 4711, "no such folder"}),
      encode(process_output{3, 0, "hello\n", true}),
      encode(process_ended{3, 137, 9, ""}),
      encode(process_finished{3}),
      encode(command_request{wire_version, "b"}),
      encode(command_accepted{3}),
      encode(address_test{{"10.0.0.1"}, {{"10.0.0.2", 4711}}, 10'000}),
      encode(address_report{{{"10.0.0.1", 4712}}, {{"10.0.0.2", 4711, "connection refused"}}}),
      encode(from, draining{"there is no rank 7", {{2, 3, "alpha"}}, true}),
      encode(from, greeting{wire_version, 1}),
      encode(from, heartbeat{{{1, std::chrono::milliseconds(1500)}}}),
      encode(from, all.members[1]),
      encode(from, all),
      encode(from, sample_requests()),
      encode(from, sample_schedule()),
      encode({3, 1, 0, 2}, sample_schedule()),
      encode(from, sample_gathered()),
      encode(from, returning{wire_version, 3, 1, 4, "host", 77, 6}),
      encode(from, resumed{3, 7, 2, true}),
      encode(from, superseded{9}),
      encode(
          from,
          slot_report{
              wire_version, 1, 6, {{0, true, true, "exited with code 3"}}, true, {{"alpha", 2, {}, true}}}),
      encode(from, formed{3, 7, {0, 2}})};
}

} // namespace farandole
