// What the leader of a process set is told, by members that have the job's secret and send what no member
// sends.
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/address_exchange.hpp"
#include "actors/process_set/hostile_members_testing.hpp"
#include "actors/process_set/negotiator.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

// ---- the address exchange ------------------------------------------------------------------------------

/// Of ranks 0, 2 and 5.
envelope_actor an_address_exchange(caf::actor_system& system, const caf::actor& ear) {
  return system.spawn(address_exchange, address_exchange_setup{from(0),
                                                               {0, 2, 5},
                                                               caf::actor_cast<envelope_actor>(ear),
                                                               caf::actor_cast<member_watcher_actor>(ear)});
}

envelope introduces(std::int32_t source, std::int32_t rank, std::string address = {}) {
  path_addresses value;
  value.rank = rank;
  value.paths.push_back({"local", std::move(address)});
  return encode(from(source), value);
}

constexpr const char* not_its_place = "in a process set where that is not its place";

std::vector<hostile> false_member_path_addresses() {
  return {
      {"path addresses of a rank beside the set", 1, [] { return introduces(1, 1); }, not_its_place},
      {"path addresses as another member", 2, [] { return introduces(2, 5); }, not_its_place},
      {"path addresses as the leader", 2, [] { return introduces(2, 0); }, not_its_place},
      {"path addresses as rank -1", 2, [] { return introduces(2, -1); }, "a rank is out of range"},
      {"path addresses as the greatest rank", 2, [] { return introduces(2, INT32_MAX); },
       "a rank is out of range"},
      {"path addresses of rank -1", -1, [] { return introduces(-1, 2); }, not_its_place},
      {"a second path addresses", 0, [] { return introduces(0, 0, "another"); }, "introduced itself twice"},
      {"an endless address of a path", 2, [] { return introduces(2, 2, std::string(1 << 20, 'x')); },
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

/// Of ranks 0, 2, 5 and 6, where 5 speaks for 6. Rank 2 says how far the lanes are.
envelope_actor a_negotiator(caf::actor_system& system, const caf::actor& ear) {
  negotiation_options options;
  options.members = {0, 2, 5, 6};
  options.branches = {{5, {5, 6}}};
  return caf::actor_cast<envelope_actor>(system.spawn(negotiator, set_place{generation, set, 0, {}, 2},
                                                      options, caf::actor_cast<fusion_scheduler_actor>(ear),
                                                      caf::actor_cast<member_watcher_actor>(ear)));
}

std::vector<hostile> false_requests_to_the_leader() {
  return {
      {"requests of a rank beside the set", 1, [] { return encode(from(1), ask("a")); },
       "it is not in this process set"},
      {"requests of rank -1", -1, [] { return encode(from(-1), ask("a")); }, "it is not in this process set"},
      {"requests of the greatest rank", INT32_MAX, [] { return encode(from(INT32_MAX), ask("a")); },
       "it is not in this process set"},
      {"a schedule", 2, [] { return encode(from(2), schedule{}); }, "holds something else"},
      {"id 0", 2, [] { return encode(from(2), with([](auto& r) { r.ids = {0}; })); }, "id"},
      {"a bucket that nobody planned", 2,
       [] { return encode(from(2), with([](auto& r) { r.buckets = {7}; })); },
       "a bucket that nobody planned"},
      {"a name twice, differently", 2,
       [] {
         return encode(from(2), with([](auto& r) {
                         r.full = {ask("x").full.front(), ask("x", {2}).full.front()};
                       }));
       },
       "asked for twice at once"},
      {"a change of process sets in one of them", 2,
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
       "the global set does not start anew"},
      {"gathered by who is no relay", 2,
       [] { return encode(from(2), gathering([](auto& g) {
                            g.ids = {{{1}, {}}};
                          })); }, "not below it"},
      {"gathered for a rank that is not below", 5,
       [] {
         return encode(from(5), gathering([](auto& g) { g.full = {{ask("a").full.front(), {{2, 1}}}}; }));
       },
       "not below it"},
      {"gathered in a rank's name that is not below", 5,
       [] { return encode(from(5), gathering([](auto& g) {
                            g.apart = {{2, ask("a")}};
                          })); },
       "it speaks for rank 2, which is not below it"},
      {"gathered in the names of thousands that are not below", 5,
       [] { return encode(from(5), gathering([](auto& g) {
                            g.apart.assign(5000, {2, ask("a")});
                          })); },
       "it speaks for rank 2, which is not below it"},
      {"how far the lanes are, of a member that does not report it", 6,
       [] { return encode(from(6), with([](auto& r) { r.finished = UINT64_MAX; })); }, ""},
  };
}

} // namespace

TEST_CASE("an address exchange: what no member sends names its sender, and the others meet", "[hostile]") {
  withstands(
      an_address_exchange, foreign_messages(2) + false_member_path_addresses(),
      [](bench& table) { table.hear(introduces(0, 0)); },
      [](bench& table) {
        table.hear(introduces(2, 2));
        CHECK(table.sent.empty());
        table.hear(introduces(5, 5));
        REQUIRE(table.sent.size() == 1);
        const auto all = decode_member_path_addresses(table.sent.front());
        REQUIRE(all);
        REQUIRE(all->members.size() == 3);
        CHECK(all->members[0].address_of("local").empty());
        // Too late.
        const auto before = table.faults.size();
        table.hear(introduces(5, 5));
        CHECK(table.faults.size() == before + 1);
        CHECK(table.sent.size() == 1);
      });
}

TEST_CASE("a negotiator: what no member sends names its sender, and the others' tensors become ready",
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

TEST_CASE("a negotiator: what comes behind its set's end counts for nothing", "[hostile]") {
  bench table{a_negotiator};
  table.leave();
  const auto said = table.results.size();
  for (const std::int32_t rank : {0, 2, 5, 6})
    table.hear(encode(from(rank), ask("b")));
  table.hear(encode(from(5), gathering([](auto& g) { g.ids = {{{1}, {}}}; })));
  CHECK(table.results.size() == said);
  CHECK(table.faults.empty());
}
