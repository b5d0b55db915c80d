// Hostile messages to the leader of a process set, from members that have the job's secret.
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/address_exchange.hpp"
#include "actors/process_set/hostile_members_testing.hpp"
#include "actors/process_set/negotiator.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

// ---- the address exchange ------------------------------------------------------------------------------

/// The address exchange of ranks 0, 2 and 5.
envelope_actor an_address_exchange(caf::actor_system& system, const caf::actor& recorder) {
  return system.spawn(address_exchange,
                      address_exchange_setup{from(0),
                                             {0, 2, 5},
                                             caf::actor_cast<envelope_actor>(recorder),
                                             caf::actor_cast<member_watcher_actor>(recorder)});
}

envelope addresses_from(std::int32_t source, std::int32_t rank, std::string address = {}) {
  path_addresses value;
  value.rank = rank;
  value.paths.push_back({"local", std::move(address)});
  return encode(from(source), value);
}

constexpr const char* not_its_place = "in a process set where that is not its place";

std::vector<hostile> false_member_path_addresses() {
  return {
      {"path addresses of a rank outside the set", 1, [] { return addresses_from(1, 1); }, not_its_place},
      {"path addresses as another member", 2, [] { return addresses_from(2, 5); }, not_its_place},
      {"path addresses as the leader", 2, [] { return addresses_from(2, 0); }, not_its_place},
      {"path addresses as rank -1", 2, [] { return addresses_from(2, -1); }, "a rank is out of range"},
      {"path addresses as the greatest rank", 2, [] { return addresses_from(2, INT32_MAX); },
       "a rank is out of range"},
      {"path addresses of rank -1", -1, [] { return addresses_from(-1, 2); }, not_its_place},
      {"a second message with path addresses", 0, [] { return addresses_from(0, 0, "another"); },
       "introduced itself twice"},
      {"an endless address of a path", 2, [] { return addresses_from(2, 2, std::string(1 << 20, 'x')); },
       "too long"},
      {"path addresses of another set", 2,
       [] {
         path_addresses value;
         value.rank = 2;
         return encode(address{generation, set + 1, 2}, value);
       },
       ""},
      {"requests", 2, [] { return encode(from(2), ask("a")); }, "holds something else"},
  };
}

// ---- the negotiator ------------------------------------------------------------------------------

/// The negotiator of ranks 0, 2, 5 and 6, where rank 5 is the relay of rank 6. Rank 2 reports the finished bundles.
envelope_actor a_negotiator(caf::actor_system& system, const caf::actor& recorder) {
  negotiation_options options;
  options.members = {0, 2, 5, 6};
  options.branches = {{5, {5, 6}}};
  return caf::actor_cast<envelope_actor>(system.spawn(
      negotiator, leader_setup{generation, set, 0, {}, 2}, options,
      caf::actor_cast<fusion_scheduler_actor>(recorder), caf::actor_cast<member_watcher_actor>(recorder)));
}

std::vector<hostile> false_requests_to_the_leader() {
  return {
      {"requests of a rank outside the set", 1, [] { return encode(from(1), ask("a")); },
       "it is not in this process set"},
      {"requests of rank -1", -1, [] { return encode(from(-1), ask("a")); }, "it is not in this process set"},
      {"requests of the greatest rank", INT32_MAX, [] { return encode(from(INT32_MAX), ask("a")); },
       "it is not in this process set"},
      {"a schedule", 2, [] { return encode(from(2), schedule{}); }, "holds something else"},
      {"id 0", 2, [] { return encode(from(2), with([](auto& r) { r.ids = {0}; })); }, "id"},
      {"a bucket that was not planned", 2,
       [] { return encode(from(2), with([](auto& r) { r.buckets = {7}; })); },
       "a bucket that was not planned"},
      {"one name twice, with different shapes", 2,
       [] {
         return encode(from(2), with([](auto& r) {
                         r.full = {ask("x").full.front(), ask("x", {2}).full.front()};
                       }));
       },
       "asked for twice at once"},
      {"a change of process sets outside the global set", 2,
       [] {
         return encode(from(2), with([](auto& r) {
                         r.change = set_change{set_change_kind::add, 0, {{0, 2}}};
                       }));
       },
       "it changes process sets in one of them"},
      {"a fault of another set in this one", 2,
       [] { return encode(from(2), with([](auto& r) {
                            r.faults = {{2, "x"}};
                          })); }, "not the global one"},
      {"a fault of the global set", 2,
       [] { return encode(from(2), with([](auto& r) {
                            r.faults = {{0, "x"}};
                          })); },
       "the global set does not restart"},
      {"gathered by a rank that is no relay", 2,
       [] { return encode(from(2), gathering([](auto& g) {
                            g.ids = {{{1}, {}}};
                          })); }, "not below it"},
      {"gathered for a rank that is not below", 5,
       [] {
         return encode(from(5), gathering([](auto& g) { g.full = {{ask("a").full.front(), {{2, 1}}}}; }));
       },
       "not below it"},
      {"gathered in the name of a rank that is not below", 5,
       [] { return encode(from(5), gathering([](auto& g) {
                            g.apart = {{2, ask("a")}};
                          })); },
       "it speaks for rank 2, which is not below it"},
      {"gathered in the names of thousands of ranks that are not below", 5,
       [] { return encode(from(5), gathering([](auto& g) {
                            g.apart.assign(5000, {2, ask("a")});
                          })); },
       "it speaks for rank 2, which is not below it"},
      {"a count of finished bundles, from a member that does not report it", 6,
       [] { return encode(from(6), with([](auto& r) { r.finished = UINT64_MAX; })); }, ""},
  };
}

} // namespace

TEST_CASE("address exchange: a hostile message names its sender, and the others still exchange addresses",
          "[hostile]") {
  withstands(
      an_address_exchange, foreign_messages(2) + false_member_path_addresses(),
      [](bench& table) { table.hear(addresses_from(0, 0)); },
      [](bench& table) {
        table.hear(addresses_from(2, 2));
        CHECK(table.sent.empty());
        table.hear(addresses_from(5, 5));
        REQUIRE(table.sent.size() == 1);
        const auto all = decode_member_path_addresses(table.sent.front());
        REQUIRE(all);
        REQUIRE(all->members.size() == 3);
        CHECK(all->members[0].address_of("local").empty());
        // Path addresses after the end of the exchange are a fault.
        const auto before = table.faults.size();
        table.hear(addresses_from(5, 5));
        CHECK(table.faults.size() == before + 1);
        CHECK(table.sent.size() == 1);
      });
}

TEST_CASE("negotiator: a hostile message names its sender, and the others' tensors become ready",
          "[hostile]") {
  withstands(
      a_negotiator, foreign_messages(2) + false_requests_to_the_leader(),
      [](bench& table) { table.hear(encode(from(0), ask("b"))); },
      [](bench& table) {
        table.results.clear();
        for (const std::int32_t rank : {2, 5, 6})
          table.hear(encode(from(rank), ask("b")));
        REQUIRE(table.results.size() == 1);
        CHECK(table.results.front().ready.size() == 1);
      });
}

TEST_CASE("negotiator: messages after the end of its set have no effect", "[hostile]") {
  bench table{a_negotiator};
  table.leave();
  const auto said = table.results.size();
  for (const std::int32_t rank : {0, 2, 5, 6})
    table.hear(encode(from(rank), ask("b")));
  table.hear(encode(from(5), gathering([](auto& g) { g.ids = {{{1}, {}}}; })));
  CHECK(table.results.size() == said);
  CHECK(table.faults.empty());
}
