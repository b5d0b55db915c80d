// A set client whose small tensors travel with their requests.
#include <catch2/catch.hpp>

#include <cstring>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using farandole::testing::set_client_bench;

namespace {

constexpr std::uint32_t number = 7;

inline_value value_of(std::uint32_t id, float value) {
  inline_value entry{id, std::vector<std::byte>(sizeof value)};
  std::memcpy(entry.bytes.data(), &value, sizeof value);
  return entry;
}

/// A set client that knows "a" as 7, and sends tensors of up to 4 bytes inline, two to a message.
class bench : public set_client_bench {
public:
  bench() : set_client_bench(setup()) {
    float first = 0;
    submit("a", scalar(), &first);
    schedule plan;
    plan.assignments = {{number, "a", -1, 0, scalar()}};
    moving(plan, {number});
    hear(plan);
    sent.clear();
  }

private:
  static set_client_setup setup() {
    auto setup = testing::second_of_two();
    setup.inline_tensors = {4, 8};
    return setup;
  }
};

} // namespace

TEST_CASE("a small tensor with an id is sent with its request, and completes with the leader's result") {
  bench table;
  for (float step = 1; step < 4; ++step) {
    float value = step;
    const auto operation = table.submit("a", set_client_bench::scalar(), &value);
    REQUIRE(table.sent.size() == 1);
    CHECK(table.sent[0].ids == std::vector{number});
    CHECK(table.sent[0].values == std::vector{value_of(number, step)});
    schedule plan;
    plan.results = {value_of(number, 10 * step)};
    table.hear(plan);
    REQUIRE(operation->settled());
    CHECK_FALSE(operation->reported());
    CHECK(value == 10 * step);
    table.sent.clear();
  }
  CHECK(table.broken.empty());
}

TEST_CASE("a tensor that was sent inline is moved in a bundle if the leader schedules one") {
  bench table;
  float value = 1;
  const auto operation = table.submit("a", set_client_bench::scalar(), &value);
  schedule plan;
  bench::moving(plan, {number});
  plan.bundles.back().sequence = 1;
  table.hear(plan);
  CHECK(operation->settled());
  CHECK(table.broken.empty());
}

TEST_CASE("a tensor whose id is not known yet is not sent inline") {
  bench table;
  float value = 1;
  table.submit("b", set_client_bench::scalar(), &value);
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].full.size() == 1);
  CHECK(table.sent[0].values.empty());
}

TEST_CASE("a result that this member cannot use ends the generation") {
  bench table;
  schedule plan;
  SECTION("of a tensor that is not pending") {
    plan.results = {value_of(number, 1)};
    table.hear(plan);
    REQUIRE(table.broken.size() == 1);
    CHECK(table.broken[0] == "the schedule has a result of 4 bytes for id 7, which is not pending here");
  }
  SECTION("of another size") {
    float value = 3;
    const auto operation = table.submit("a", set_client_bench::scalar(), &value);
    plan.results = {{number, std::vector<std::byte>(8)}};
    table.hear(plan);
    REQUIRE(table.broken.size() == 1);
    CHECK(table.broken[0] == "the schedule has a result of 8 bytes for id 7, which has 4");
    CHECK(operation->settled());
    CHECK(operation->reported());
    CHECK(value == 3);
  }
}
