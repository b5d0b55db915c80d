// A worker among actors that only listen: what it tells the leader of tensors that are in a bucket, and when.
#include <catch2/catch.hpp>

#include "actors/set/worker.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

/// A worker that knows "a" and "b" as 1 and 2, in bucket 5, for 20 ms.
class bench {
public:
  bench() : world_(1) {
    post_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const outbound& message) {
        auto what = decode_requests(message.message);
        REQUIRE(what);
        sent.push_back(*what);
      }};
    });
    lane_ = world_.system().spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](const lane_job_ptr& job) { (*job)->settle({}); }};
    });
    door_ = std::make_shared<door>(0, 2, 65536, [this] { caf::anon_send(worker_, doorbell_atom::value); });
    worker_setup setup;
    setup.door = door_;
    setup.self = {1, 0, 1};
    setup.rank = 1;
    setup.members = 2;
    setup.post = caf::actor_cast<post_actor>(post_);
    setup.mover = caf::actor_cast<mover_actor>(lane_);
    worker_ = world_.system().spawn(worker, std::move(setup));
    submit("a");
    submit("b");
    schedule plan;
    plan.assignments = {{1, "a", -1, 0, what()}, {2, "b", -1, 0, what()}};
    plan.buckets = {{5, {1, 2}, 20ms}};
    moving(plan, {1, 2});
    hear(plan);
    sent.clear();
  }
  ~bench() {
    door_->close();
    for (const auto& actor : {post_, lane_, caf::actor_cast<caf::actor>(worker_)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    post_ = lane_ = nullptr;
    worker_ = nullptr;
    world_.run_until_idle();
  }

  static signature what() {
    signature result;
    result.shape = {1};
    return result;
  }
  pending_ptr submit(const std::string& name, operation kind = operation::allreduce) {
    auto asked = what();
    asked.operation = kind;
    auto operation = door_->submit({name, asked, nullptr, nullptr, 0, {}});
    REQUIRE(operation);
    world_.run_until_quiet();
    return *operation;
  }
  void withdraw(pending& operation) {
    door_->withdraw(operation);
    world_.run_until_quiet();
  }
  static void moving(schedule& plan, const std::vector<std::uint32_t>& ids) {
    auto& one = plan.bundles.emplace_back();
    for (auto id : ids) {
      one.entries.emplace_back().id = id;
      one.entries.back().elements = 1;
    }
  }
  void hear(const schedule& plan) {
    caf::anon_send(worker_, encode({1, 0, 0}, plan));
    world_.run_until_quiet();
  }
  simulation& world() { return world_; }
  void leave() {
    caf::anon_send(worker_, leave_request{});
    world_.run_until_quiet();
  }

  std::vector<requests> sent;

private:
  simulation world_;
  caf::actor post_;
  caf::actor lane_;
  std::shared_ptr<door> door_;
  worker_actor worker_;
};

using ids = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("a member says a bucket when it is ready for all of it, step after step") {
  bench table;
  for (int step = 0; step < 3; ++step) {
    table.submit(step == 1 ? "a" : "b");
    CHECK(table.sent.empty());
    table.submit(step == 1 ? "b" : "a");
    REQUIRE(table.sent.size() == 1);
    CHECK(table.sent[0].buckets == ids{5});
    CHECK(table.sent[0].ids.empty());
    schedule plan;
    bench::moving(plan, {1, 2});
    table.hear(plan);
    table.sent.clear();
    table.world().run_for(100ms);
    CHECK(table.sent.empty());
  }
}

TEST_CASE("a member that goes no further tells what it is ready for after a while") {
  bench table;
  table.submit("a");
  table.world().run_for(19ms);
  CHECK(table.sent.empty());
  table.world().run_for(2ms);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
  table.submit("b");
  REQUIRE(table.sent.size() == 2);
  CHECK(table.sent[1].ids == ids{2});
}

TEST_CASE("what a member takes back, and its leaving, come behind what it had kept") {
  bench table;
  const auto operation = table.submit("a");
  table.withdraw(*operation);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
  CHECK(table.sent[0].withdraw == std::vector<std::string>{"a"});

  bench other;
  other.submit("b");
  other.leave();
  REQUIRE(other.sent.size() == 1);
  CHECK(other.sent[0].ids == ids{2});
  CHECK(other.sent[0].leaves);
}

TEST_CASE("a join comes behind what a member had kept") {
  bench table;
  table.submit("a");
  table.submit("join.noname", operation::join);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
  CHECK(table.sent[0].join);
}

TEST_CASE("what was kept for a bucket goes to the leader when that is dissolved") {
  bench table;
  table.submit("a");
  schedule plan;
  plan.dissolved = {5};
  table.hear(plan);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
}
