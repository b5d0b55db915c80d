// A set client with a tensor to which this member contributes nothing.
#include <catch2/catch.hpp>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using farandole::testing::set_client_bench;

namespace {

constexpr std::uint32_t number = 7;

/// A set client that knows "a" as 7.
class bench : public set_client_bench {
public:
  bench() : set_client_bench(testing::second_of_two()) {
    submit("a", scalar());
    schedule plan;
    plan.assignments = {{number, "a", -1, 0, scalar()}};
    moving(plan, {number});
    hear(plan);
    sent.clear();
  }

  operation_state_ptr submit_absent() {
    auto* bytes = reinterpret_cast<std::byte*>(&zero_);
    submission wanted{"a", scalar(), bytes, bytes, 0, {}};
    wanted.absent = true;
    auto operation = queue().submit(wanted);
    REQUIRE(operation);
    world().run_until_quiet();
    return *operation;
  }

private:
  float zero_ = 0;
};

schedule without_result() {
  schedule plan;
  plan.absent = {"a"};
  return plan;
}

} // namespace

TEST_CASE("an absent contribution is requested in full, even if the tensor has an id") {
  bench table;
  table.submit_absent();
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].ids.empty());
  REQUIRE(table.sent[0].full.size() == 1);
  CHECK(table.sent[0].full[0].absent);
  CHECK(table.sent[0].full[0].name == "a");
}

TEST_CASE("a tensor to which no member contributes is settled without an error and without a result") {
  bench table;
  const auto operation = table.submit_absent();
  table.hear(without_result());
  REQUIRE(operation->settled());
  CHECK_FALSE(operation->reported());
  CHECK(operation->outcome.kind == result_kind::none);
  CHECK(table.broken.empty());
}

TEST_CASE("a tensor that is not pending here may have no result: this member has joined") {
  bench table;
  table.hear(without_result());
  CHECK(table.broken.empty());
}

TEST_CASE(
    "a leader that says that a tensor has no result, although this member contributes, ends the generation") {
  bench table;
  const auto operation = table.submit("b", set_client_bench::scalar());
  schedule plan;
  plan.absent = {"b"};
  table.hear(plan);
  REQUIRE(table.broken.size() == 1);
  CHECK(table.broken[0] == "b has no result, but this rank has contributed to it");
  CHECK(operation->reported());
}
