// A worker among actors that only listen: what it tells the leader of tensors that are in a bucket, and when.
#include <catch2/catch.hpp>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::worker_bench;

namespace {

/// A worker that knows "a" and "b" as 1 and 2, in bucket 5, for 20 ms.
class bench : public worker_bench {
public:
  bench() : worker_bench(setup()) {
    submit("a");
    submit("b");
    schedule plan;
    plan.assignments = {{1, "a", -1, 0, scalar()}, {2, "b", -1, 0, scalar()}};
    plan.buckets = {{5, {1, 2}, 20ms}};
    moving(plan, {1, 2});
    hear(plan);
    sent.clear();
  }

  operation_state_ptr submit(const std::string& name, operation kind = operation::allreduce) {
    return worker_bench::submit(name, scalar(kind));
  }
  void withdraw(operation_state& operation) {
    queue().withdraw(operation);
    world().run_until_quiet();
  }
  void leave() { tell(leave_request{}); }

private:
  static set_client_setup setup() {
    set_client_setup setup;
    setup.self = {1, 0, 1};
    setup.rank = 1;
    setup.members = 2;
    return setup;
  }
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
