// Hostile messages to a relay of a process set, from below and from above, by members that have the job's secret.
#include "actors/process_set/hostile_members_testing.hpp"
#include "actors/process_set/relay_actor.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// The relay on rank 4, with rank 5 and the relay on rank 8 below it; rank 9 is below rank 8.
envelope_actor a_relay(caf::actor_system& system, const caf::actor& recorder) {
  relay_actor_setup setup;
  setup.self = from(4);
  setup.members = 6;
  setup.rules.ranks = {4, 5, 8, 9};
  setup.rules.branches = {{8, {8, 9}}};
  setup.router = caf::actor_cast<envelope_actor>(recorder);
  setup.watcher = caf::actor_cast<member_watcher_actor>(recorder);
  return caf::actor_cast<envelope_actor>(system.spawn(relay_behaviour, std::move(setup)));
}

schedule planning(std::vector<bucket> buckets) {
  schedule plan;
  plan.buckets = std::move(buckets);
  return plan;
}

std::vector<hostile> false_requests_below_a_relay() {
  return {
      {"requests of a rank outside the set", 7, [] { return encode(from(7), ask("a")); },
       "it is not in this process set"},
      {"requests of rank -1", -1, [] { return encode(from(-1), ask("a")); }, "it is not in this process set"},
      {"id 0", 5, [] { return encode(from(5), with([](auto& r) { r.ids = {0}; })); }, "id"},
      {"a bucket that was not planned", 5,
       [] { return encode(from(5), with([](auto& r) { r.buckets = {7}; })); },
       "a bucket that was not planned"},
      {"gathered by a rank that is no relay", 5, [] { return encode(from(5), gathered{}); }, "not below it"},
      {"gathered for a rank that is not below", 8,
       [] { return encode(from(8), gathering([](auto& g) {
                            g.apart = {{5, ask("a")}};
                          })); }, "not below it"},
      {"gathered for thousands of ranks that are not below", 8,
       [] { return encode(from(8), gathering([](auto& g) {
                            g.apart.assign(5000, {5, ask("a")});
                          })); },
       "not below it"},
      {"a schedule with an empty bucket", 0,
       [] {
         return encode(from(0), planning({{1, {}, 1ms}}));
       },
       "a bucket is empty"},
      {"a schedule with one id in two buckets", 0,
       [] {
         return encode(from(0), planning({{1, {5, 6}, 1ms}, {2, {6}, 1ms}}));
       },
       "an id is in a bucket twice"},
      {"a schedule with more buckets than there can be", 0,
       [] {
         std::vector<bucket> many;
         for (std::uint32_t id = 1; id <= bucket_limit + 1; ++id)
           many.push_back({id, {id}, 1ms});
         return encode(from(0), planning(std::move(many)));
       },
       "too many buckets"},
      {"a schedule whose buckets wait for ever", 0,
       [] {
         return encode(from(0), planning({{1, {5}, 1h}}));
       },
       "to wait for too long"},
      {"a schedule in which a rank beyond the set joined last", 0,
       [] {
         schedule plan;
         plan.joined = 6;
         return encode(from(0), plan);
       },
       "not a member"},
      {"a schedule that forgets ids that were never assigned", 0,
       [] {
         schedule plan;
         plan.forget = {1, 2, UINT32_MAX};
         plan.retract = {{77, UINT64_MAX}};
         plan.dissolved = {1, 2, 3};
         return encode(from(0), plan);
       },
       ""},
  };
}

} // namespace

TEST_CASE("relay actor: a hostile message names its sender, and the others' requests go to the leader",
          "[hostile]") {
  withstands(
      a_relay, foreign_messages(5) + false_requests_below_a_relay(),
      [](bench& table) {
        table.hear(encode(from(4), ask("b")));
        table.hear(encode(from(5), ask("b")));
      },
      [](bench& table) {
        CHECK(table.sent.empty());
        table.hear(encode(from(8), gathering([](auto& g) { g.full = {{ask("b").full.front(), {}}}; })));
        table.wait(1s);
        REQUIRE(table.sent.size() == 1);
        const auto up = decode_gathered(table.sent.front());
        REQUIRE(up);
        REQUIRE(up->full.size() == 1);
        CHECK(up->full.front().ranks.empty());
        CHECK(up->apart.empty());
      });
}
