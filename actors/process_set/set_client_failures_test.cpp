// A set client whose leader fails operations.
#include <catch2/catch.hpp>

#include <future>
#include <thread>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using farandole::testing::set_client_bench;

TEST_CASE("a failure on all members counts before the operation ends, also where it was not requested") {
  set_client_bench table(testing::second_of_two());
  const auto operation = table.submit("a", set_client_bench::scalar());
  std::uint64_t counted = 0;
  operation->on_settled([&] { counted = table.queue().failures("a"); });
  schedule plan;
  plan.failures = {{"a", {error_kind::mismatch, "a: shapes differ"}},
                   {"b", {error_kind::precondition, "b: a scalar"}}};
  table.hear(plan);
  REQUIRE(operation->settled());
  CHECK(operation->problem.kind == error_kind::mismatch);
  CHECK(counted == 1);
  CHECK(table.queue().failures("b") == 1);
}

TEST_CASE("the refusal of a withdrawn operation does not count as a failure on all members") {
  set_client_bench table(testing::second_of_two());
  const auto operation = table.submit("a", set_client_bench::scalar());
  schedule plan;
  plan.failures = {{"a", {error_kind::aborted, "a was taken back by rank 0"}}};
  table.hear(plan);
  CHECK(operation->settled());
  CHECK(table.queue().failures("a") == 0);
}

TEST_CASE("an operation that ends while it is taken back leaves the next one of its name alone") {
  set_client_bench table(testing::second_of_two());
  const auto first = table.submit("a", set_client_bench::scalar());
  table.sent.clear();
  table.queue().withdraw(*first);
  REQUIRE(first->claim_and_settle(phase::queued, {})); // by a lane, before the loop reads the queue
  table.submit("a", set_client_bench::scalar());
  REQUIRE(table.sent.size() == 1);
  CHECK(table.sent[0].withdraw.empty());
  CHECK(table.sent[0].full.size() == 1);
}

TEST_CASE("an operation that fails on the fast path of one member ends the set, until that has ended") {
  auto setup = testing::second_of_two();
  std::vector<std::string> reasons;
  setup.broke = [&](const error& reason) { reasons.push_back(reason.text); };
  set_client_bench table(std::move(setup));
  CHECK(table.queue().report_broken({error_kind::unknown, "a: no memory"}));
  table.world().run_until_quiet();
  CHECK(reasons == std::vector<std::string>{"a: no memory"});
  table.tell(generation_over{{error_kind::disconnected, "over"}});
  CHECK(table.queue().report_broken({error_kind::unknown, "b: no memory"}));
  table.world().run_until_quiet();
  CHECK(reasons.size() == 1);
}

TEST_CASE("no failure on the fast path ends a set that a departure is about to end") {
  auto setup = testing::second_of_two();
  bool broke = false;
  setup.broke = [&](const error&) { broke = true; };
  set_client_bench table(std::move(setup));
  std::promise<void> locked, departed;
  table.locked = [&] {
    locked.set_value();
    departed.get_future().wait();
  };
  bool submitted = false;
  std::thread caller([&] {
    submitted = bool{table.queue().submit({"a", set_client_bench::scalar(), nullptr, nullptr, 0, {}})};
  });
  locked.get_future().wait();
  schedule plan;
  plan.end = true;
  plan.departed = departed_member{0, {}};
  table.hear(plan);
  departed.set_value();
  caller.join();
  CHECK(submitted);
  table.locked = nullptr;
  CHECK(table.queue().report_broken({error_kind::unknown, "b: no memory"}));
  table.world().run_until_quiet();
  CHECK_FALSE(broke);
  table.world().run_for(std::chrono::milliseconds(1));
  CHECK(table.queue().has_ended());
}

TEST_CASE("a schedule that names an operation which has failed meanwhile breaks the generation") {
  set_client_bench table(testing::second_of_two());
  const auto operation = table.submit("a", set_client_bench::scalar());
  schedule plan;
  plan.assignments = {{7, "a", -1, 0, set_client_bench::scalar()}};
  table.hear(plan);
  CHECK(table.queue().fail({error_kind::unknown, "an actor failed"}) == submission_queue::attempt::done);
  plan = {};
  set_client_bench::moving(plan, {7});
  table.hear(plan);
  CHECK(table.broken.size() == 1);
  CHECK(operation->problem.text == "an actor failed");
}
