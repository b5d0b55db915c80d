#include "actors/process_set/fusion_scheduler.hpp"

#include <catch2/catch.hpp>

#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

ready_tensor tensor(std::uint32_t id, dtype type = dtype::float32) {
  ready_tensor ready;
  ready.id = id;
  ready.dtype = type;
  ready.elements = 1;
  ready.bytes = size_of(type);
  return ready;
}

struct sent_schedule {
  std::int32_t rank = -1;
  schedule next_schedule;
};

/// A fusion scheduler, and the schedules that it sends.
class bench {
public:
  explicit bench(const fusion_options& options = {}) : world_(1) {
    router_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const envelope& message) {
        auto schedule = decode_schedule(message, 4);
        REQUIRE(schedule);
        CHECK(message.generation() == 3);
        sent.push_back({message.target(), *schedule});
      }};
    });
    scheduler_ = world_.system().spawn(fusion_scheduler, leader_setup{3, 0, 0}, options,
                                       caf::actor_cast<envelope_actor>(router_));
  }
  ~bench() {
    caf::anon_send_exit(scheduler_, caf::exit_reason::kill);
    caf::anon_send_exit(router_, caf::exit_reason::kill);
    scheduler_ = nullptr;
    router_ = nullptr;
    world_.run_until_idle();
  }

  void decide(negotiation_result decision) {
    caf::anon_send(scheduler_, negotiation_result_message{
                                   std::make_shared<const negotiation_result>(std::move(decision))});
    world_.run_until_quiet();
  }
  void finish(std::uint64_t sequence) {
    caf::anon_send(scheduler_, bundle_finished{sequence});
    world_.run_until_quiet();
  }
  simulation& world() { return world_; }

  std::vector<sent_schedule> sent;

private:
  simulation world_;
  caf::actor router_;
  fusion_scheduler_actor scheduler_;
};

negotiation_result ready(std::vector<ready_tensor> tensors) {
  negotiation_result decision;
  decision.ready = std::move(tensors);
  return decision;
}

std::vector<std::uint32_t> ids(const bundle& bundle) {
  std::vector<std::uint32_t> result;
  for (const auto& entry : bundle.entries)
    result.push_back(entry.id);
  return result;
}

} // namespace

TEST_CASE("ready tensors are scheduled at once; later ones are fused when the lane has finished a bundle") {
  bench table;
  for (std::uint32_t id = 1; id <= 5; ++id)
    table.decide(ready({tensor(id)}));
  REQUIRE(table.sent.size() == 2);
  table.finish(0);
  REQUIRE(table.sent.size() == 3);
  CHECK(table.sent[2].rank == -1);
  CHECK(ids(table.sent[2].next_schedule.bundles.at(0)) == std::vector<std::uint32_t>{3, 4, 5});
  CHECK(table.sent[2].next_schedule.bundles[0].sequence == 2);
  table.finish(1);
  table.finish(2);
  CHECK(table.sent.size() == 3);
}

TEST_CASE("a whole bucket goes out in one schedule, even if it takes several bundles") {
  bench table;
  auto decision = ready({tensor(1), tensor(2, dtype::int64), tensor(3, dtype::float16), tensor(4)});
  decision.whole = true;
  decision.dissolved = {7};
  decision.buckets = {{8, {1, 2}, 10ms}};
  table.decide(decision);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].next_schedule.bundles.size() == 3);
  CHECK(table.sent[0].next_schedule.dissolved == decision.dissolved);
  CHECK(table.sent[0].next_schedule.buckets == decision.buckets);
}

TEST_CASE("no bundle names an id that members were told to forget or to retract") {
  for (const bool by_retraction : {false, true}) {
    bench table;
    for (std::uint32_t id = 1; id <= 3; ++id)
      table.decide(ready({tensor(id)}));
    REQUIRE(table.sent.size() == 2);
    auto decision = ready({tensor(4)});
    if (by_retraction)
      decision.retract.push_back({3, 0});
    else
      decision.forget.push_back(3);
    table.decide(decision);
    REQUIRE(table.sent.size() == 4);
    CHECK(ids(table.sent[2].next_schedule.bundles.at(0)) == std::vector<std::uint32_t>{3, 4});
    CHECK(table.sent[2].next_schedule.forget.empty());
    CHECK(table.sent[2].next_schedule.retract.empty());
    CHECK(table.sent[3].next_schedule.forget.size() + table.sent[3].next_schedule.retract.size() == 1);
    CHECK(table.sent[3].next_schedule.bundles.empty());
  }
}

TEST_CASE("a schedule for one member is sent to it alone, before the schedule for all members") {
  bench table;
  auto decision = ready({tensor(1)});
  decision.refusals.push_back({2, {"a", {error_kind::aborted, "taken back"}}});
  decision.questions.push_back({2, 7});
  decision.questions.push_back({3, 8});
  table.decide(decision);
  REQUIRE(table.sent.size() == 3);
  CHECK(table.sent[0].rank == 2);
  CHECK(table.sent[0].next_schedule.ask == std::vector<std::uint32_t>{7});
  CHECK(table.sent[0].next_schedule.failures.at(0).name == "a");
  CHECK(table.sent[1].rank == 3);
  CHECK(table.sent[2].rank == -1);
}

TEST_CASE("the result of a join and the end of the set come after all ready tensors") {
  bench table;
  for (std::uint32_t id = 1; id <= 3; ++id)
    table.decide(ready({tensor(id)}));
  negotiation_result all;
  all.joined = 2;
  table.decide(all);
  REQUIRE(table.sent.size() == 3);
  CHECK(ids(table.sent[2].next_schedule.bundles.at(0)) == std::vector<std::uint32_t>{3});
  CHECK(table.sent[2].next_schedule.joined == 2);

  table.decide(ready({tensor(4)}));
  negotiation_result last;
  last.end = true;
  table.decide(last);
  REQUIRE(table.sent.size() == 4);
  CHECK(ids(table.sent[3].next_schedule.bundles.at(0)) == std::vector<std::uint32_t>{4});
  CHECK(table.sent[3].next_schedule.end);
  table.decide(ready({tensor(5)}));
  CHECK(table.sent.size() == 4);
}

TEST_CASE("a tensor is held back for the cycle time and no longer") {
  fusion_options options;
  options.cycle_time = 5ms;
  bench table(options);
  table.decide(ready({tensor(1)}));
  table.world().run_for(4ms);
  table.decide(ready({tensor(2)}));
  CHECK(table.sent.empty());
  table.world().run_for(1ms);
  REQUIRE(table.sent.size() == 1);
  CHECK(ids(table.sent[0].next_schedule.bundles.at(0)) == std::vector<std::uint32_t>{1, 2});
  table.decide(ready({tensor(3)}));
  table.world().run_for(4ms);
  CHECK(table.sent.size() == 1);
  table.world().run_for(1ms);
  CHECK(table.sent.size() == 2);
}
