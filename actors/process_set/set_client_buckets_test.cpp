// The requests of a set client for tensors in a bucket, and their times. The other actors only record messages.
#include <catch2/catch.hpp>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::set_client_bench;

namespace {

/// A set client that knows "a" and "b" as ids 1 and 2, in bucket 5 with a wait of 20 ms.
class bench : public set_client_bench {
public:
  bench() : set_client_bench(testing::second_of_two()) {
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
    return set_client_bench::submit(name, scalar(kind));
  }
  void withdraw(operation_state& operation) {
    queue().withdraw(operation);
    world().run_until_quiet();
  }
  void leave() { tell(leave_request{}); }
};

using ids = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("a member requests a bucket once all its tensors are ready, in every step") {
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

TEST_CASE("a member requests the ready tensors of an incomplete bucket after the bucket's wait") {
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

TEST_CASE("a withdrawal or a leave is sent together with the requests held back for a bucket") {
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

TEST_CASE("a join is sent together with the requests held back for a bucket") {
  bench table;
  table.submit("a");
  table.submit("join.noname", operation::join);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
  CHECK(table.sent[0].join);
}

TEST_CASE("requests held back for a bucket go to the leader when the bucket is dissolved") {
  bench table;
  table.submit("a");
  schedule plan;
  plan.dissolved = {5};
  table.hear(plan);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids == ids{1});
}
