#include "collectives/negotiation/bucket_planner.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using ids = std::vector<std::uint32_t>;

// Plays steps in which ids become ready a millisecond apart; the first request for an id comes `ahead` before
// it is ready.
class training {
public:
  explicit training(std::size_t buckets) : planner(planner_rules{.buckets = buckets}) {}

  std::vector<bucket> step(const ids& order, std::chrono::nanoseconds ahead = 5ms, std::size_t bytes = 100) {
    std::vector<bucket> planned;
    for (auto id : order) {
      current_time += 1ms;
      planner.completed(id, bytes, current_time - ahead, current_time);
      auto more = planner.plan();
      planned.insert(planned.end(), more.begin(), more.end());
    }
    return planned;
  }
  /// Plays steps until buckets are planned; returns the number of steps and those buckets.
  std::pair<int, std::vector<bucket>> steps_until_planned(const ids& order, int limit = 5000) {
    for (int count = 1; count <= limit; ++count)
      if (auto planned = step(order); !planned.empty())
        return {count, planned};
    return {limit, {}};
  }

  bucket_planner planner;
  std::chrono::nanoseconds current_time{1s};
};

ids up_to(std::uint32_t last) {
  ids all(last);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

} // namespace

TEST_CASE("after two equal steps the ids are cut into buckets of about equal bytes, in their order") {
  training job(4);
  CHECK(job.step(up_to(12)).empty());
  const auto planned = job.step(up_to(12));
  REQUIRE(planned.size() == 4);
  ids all;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(planned[i].id == i + 1);
    CHECK(planned[i].ids.size() == 3);
    all.insert(all.end(), planned[i].ids.begin(), planned[i].ids.end());
  }
  CHECK(all == up_to(12));
}

TEST_CASE("buckets are balanced by bytes, not by the number of ids") {
  training job(2);
  const auto step = [&] {
    std::vector<bucket> planned;
    for (auto id : up_to(8)) {
      job.current_time += 1ms;
      job.planner.completed(id, id == 1 ? 1000 : 10, job.current_time - 5ms, job.current_time);
      planned = job.planner.plan();
    }
    return planned;
  };
  step();
  const auto planned = step();
  REQUIRE(planned.size() == 2);
  CHECK(planned[0].ids == ids{1, 2});
  CHECK(planned[1].ids == ids{3, 4, 5, 6, 7, 8});
}

TEST_CASE("steps with different ids plan no buckets, and the order of the ids does not matter") {
  training job(4);
  for (int i = 0; i < 10; ++i) {
    CHECK(job.step(up_to(8)).empty());
    CHECK(job.step({1, 2, 3, 4, 5, 6, 7, 9}).empty());
  }
  // The same ids in another order are the same step.
  CHECK(job.step({1, 9, 7, 6, 5, 4, 3, 2}).size() == 4);
}

TEST_CASE("tensors whose callers wait for each one before the next request get no bucket") {
  training job(4);
  for (int i = 0; i < 10; ++i)
    CHECK(job.step(up_to(8), 500us).empty());
}

TEST_CASE("a bucket ends where callers wait, and a single id is no bucket") {
  training job(4);
  const auto step = [&] {
    auto planned = job.step({1, 2, 3});
    job.current_time += 10ms; // the requests for all of the above have come by now
    for (auto id : {4u, 5u}) {
      job.current_time += 1ms;
      job.planner.completed(id, 100, id == 4 ? job.current_time - 500us : job.current_time - 5ms,
                            job.current_time);
      auto more = job.planner.plan();
      planned.insert(planned.end(), more.begin(), more.end());
    }
    job.current_time += 10ms;
    job.planner.completed(6, 100, job.current_time - 500us, job.current_time);
    auto more = job.planner.plan();
    planned.insert(planned.end(), more.begin(), more.end());
    return planned;
  };
  CHECK(step().empty());
  const auto planned = step();
  REQUIRE(planned.size() == 2);
  CHECK(planned[0].ids == ids{1, 2, 3});
  CHECK(planned[1].ids == ids{4, 5});
}

TEST_CASE("patience is four times the spread of the ids' requests, between 10 ms and 100 ms") {
  const auto patience = [](std::chrono::nanoseconds ahead) {
    training job(1);
    job.step(up_to(4), ahead);
    return job.step(up_to(4), ahead).at(0).patience;
  };
  CHECK(patience(4ms) == 4 * (3ms + 4ms));
  CHECK(patience(90ms) == 100ms);
  training at_once(1);
  for (int i = 0; i < 2; ++i)
    for (auto id : up_to(4))
      at_once.planner.completed(id, 1, at_once.current_time, at_once.current_time);
  CHECK(at_once.planner.plan().at(0).patience == 10ms);
}

TEST_CASE("a missed bucket rests twice as long each time, up to a bound, until it has served again") {
  training job(1);
  const auto miss_again = [&](int served) {
    const auto [steps, planned] = job.steps_until_planned(up_to(4));
    REQUIRE(planned.size() == 1);
    for (int i = 0; i < served; ++i)
      job.planner.served(planned[0].id);
    job.planner.missed(planned[0].id);
    return steps;
  };
  CHECK(miss_again(0) == 2);
  for (const int rest : {4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024})
    CHECK(miss_again(0) == rest);
  miss_again(2000);
  CHECK(miss_again(0) == 4);
}

TEST_CASE("the rest of a bucket's ids is reset only if the bucket served longer than they rested before") {
  const auto next_rest = [](int served) {
    training job(1);
    job.step(up_to(4));
    job.planner.missed(job.step(up_to(4)).at(0).id); // its ids rest for 4 steps
    const auto id = job.steps_until_planned(up_to(4)).second.at(0).id;
    for (int i = 0; i < served; ++i)
      job.planner.served(id);
    job.planner.missed(id);
    return job.steps_until_planned(up_to(4)).first;
  };
  CHECK(next_rest(4) == 8);
  CHECK(next_rest(5) == 4);
}

TEST_CASE("rests are counted in steps, including steps that consist of buckets alone") {
  training job(2);
  job.step(up_to(4));
  const auto planned = job.step(up_to(4));
  REQUIRE(planned.size() == 2);
  job.planner.missed(planned[0].id);
  for (int step = 0; step < 10; ++step)
    job.planner.served(planned[1].id);
  CHECK(job.step(planned[0].ids).empty());
  job.planner.served(planned[1].id);
  CHECK(job.step(planned[0].ids).size() == 1);
}

TEST_CASE("a bucket belongs to the step in which it comes, at any position") {
  training job(1);
  job.step(up_to(4));
  REQUIRE(job.step(up_to(4)).size() == 1);
  job.step({11, 12, 13}); // from now on, a step begins with 11
  for (int step = 0; step < 10; ++step) {
    CHECK(job.step({11, 12, 13}).empty());
    job.planner.served(1);
  }
}

TEST_CASE("a bucket ends where its bytes are nearest to its share") {
  const auto parts = [](const std::vector<std::size_t>& bytes) {
    training job(2);
    std::vector<bucket> planned;
    for (int step = 0; step < 2; ++step)
      for (std::uint32_t i = 0; i < bytes.size(); ++i) {
        job.current_time += 1ms;
        job.planner.completed(i + 1, bytes[i], job.current_time - 5ms, job.current_time);
        planned = job.planner.plan();
      }
    std::vector<ids> all;
    for (const auto& bucket : planned)
      all.push_back(bucket.ids);
    return all;
  };
  CHECK(parts({10, 10, 20, 10, 10}) == std::vector<ids>{{1, 2}, {3, 4, 5}});
  CHECK(parts({10, 10, 18, 12, 10}) == std::vector<ids>{{1, 2, 3}, {4, 5}});
  CHECK(parts({1, 1, 1, 1000}) == std::vector<ids>{{1, 2}, {3, 4}});
}

TEST_CASE("there are never more open buckets than the limit, and a missed bucket makes room") {
  training job(2);
  job.step(up_to(8));
  const auto planned = job.step(up_to(8));
  REQUIRE(planned.size() == 2);
  for (int i = 0; i < 5; ++i) {
    for (const auto& bucket : planned)
      job.planner.served(bucket.id);
    CHECK(job.step({20, 21, 22}).empty());
  }
  job.planner.missed(planned[0].id);
  const auto [steps, more] = job.steps_until_planned({20, 21, 22}, 3);
  REQUIRE(more.size() == 1);
  CHECK(more[0].ids == ids{20, 21, 22});
}

TEST_CASE("forgotten ids, and steps in which a member joins, are not planned for") {
  training job(2);
  job.step(up_to(8));
  job.step({1, 2, 3, 4});
  job.planner.forget(2);
  CHECK(job.step({5, 6, 7, 8}).empty());
  training other(2);
  other.step(up_to(8));
  other.planner.spoil();
  CHECK(other.step(up_to(8)).empty());
  CHECK(other.step(up_to(8)).size() == 2);
}

TEST_CASE("with a limit of 0 no bucket is planned") {
  training job(0);
  for (int i = 0; i < 5; ++i)
    CHECK(job.step(up_to(8)).empty());
}

TEST_CASE("steps keep their first id after a bucket was missed in the middle of a step") {
  training job(2);
  job.step(up_to(8));
  const auto planned = job.step(up_to(8));
  REQUIRE(planned.size() == 2);
  job.planner.served(planned[0].id);
  job.planner.missed(planned[1].id);
  job.step(planned[1].ids);
  for (int i = 0; i < 20; ++i) {
    job.planner.served(planned[0].id);
    const auto again = job.step(planned[1].ids);
    if (again.empty())
      continue;
    REQUIRE(again.size() == 1);
    CHECK(again[0].ids == planned[1].ids);
    return;
  }
  FAIL("it was not planned again");
}

TEST_CASE("a second model's tensors get their own buckets, and the first model's buckets stay") {
  training job(2);
  job.step(up_to(8));
  REQUIRE(job.step(up_to(8)).size() == 2);
  for (int step = 0; step < 3; ++step)
    for (const std::uint32_t bucket : {1, 2})
      job.planner.served(bucket);
  const auto [steps, planned] = job.steps_until_planned({21, 22, 23, 24, 25, 26, 27, 28});
  CHECK(steps <= 4);
  REQUIRE(planned.size() == 2);
  CHECK(planned[0].id == 3);
  CHECK(planned[1].ids.back() == 28);
  job.planner.served(1); // a bucket of the first model
}

TEST_CASE("a step never has more buckets than the limit") {
  training job(2);
  job.step(up_to(8));
  REQUIRE(job.step(up_to(8)).size() == 2);
  for (int step = 0; step < 20; ++step) {
    for (const std::uint32_t bucket : {1, 2})
      job.planner.served(bucket);
    CHECK(job.step({21, 22, 23, 24}).empty());
  }
}

TEST_CASE("the total number of buckets never exceeds bucket_limit") {
  training job(3);
  std::size_t planned = 0;
  for (std::uint32_t model = 0; model < 40; ++model) {
    ids own(8);
    std::iota(own.begin(), own.end(), 1 + 8 * model);
    for (int step = 0; step < 5; ++step)
      planned += job.step(own).size();
  }
  CHECK(planned == bucket_limit);
}

namespace {

// Plays both runs in a row; callers wait between the runs.
std::vector<bucket> two_runs(training& job, const ids& first, std::size_t first_bytes, const ids& second,
                             std::size_t second_bytes) {
  std::vector<bucket> planned;
  const auto run = [&](const ids& order, std::size_t bytes) {
    job.current_time += 10ms;
    for (auto id : order) {
      job.current_time += 1ms;
      job.planner.completed(id, bytes,
                            id == order.front() ? job.current_time - 500us : job.current_time - 5ms,
                            job.current_time);
      auto more = job.planner.plan();
      planned.insert(planned.end(), more.begin(), more.end());
    }
  };
  run(first, first_bytes);
  run(second, second_bytes);
  return planned;
}

} // namespace

TEST_CASE("if there are more runs than buckets, the longest runs get a bucket") {
  training job(1);
  CHECK(two_runs(job, {1, 2}, 1000, {3, 4, 5}, 10).empty());
  const auto planned = two_runs(job, {1, 2}, 1000, {3, 4, 5}, 10);
  REQUIRE(planned.size() == 1);
  CHECK(planned[0].ids == ids{3, 4, 5});
}

TEST_CASE("if there are more buckets than runs, the run with most bytes is cut") {
  training job(3);
  CHECK(two_runs(job, {1, 2, 3, 4}, 10, {5, 6, 7, 8}, 1000).empty());
  const auto planned = two_runs(job, {1, 2, 3, 4}, 10, {5, 6, 7, 8}, 1000);
  REQUIRE(planned.size() == 3);
  CHECK(planned[0].ids == ids{1, 2, 3, 4});
  CHECK(planned[1].ids == ids{5, 6});
  CHECK(planned[2].ids == ids{7, 8});
}

TEST_CASE("patience counts from the earliest request for any of the ids") {
  training job(1);
  for (int count = 0; count < 2; ++count) {
    job.planner.completed(1, 1, job.current_time - 2ms, job.current_time);
    job.planner.completed(2, 1, job.current_time - 6ms, job.current_time + 1ms);
  }
  CHECK(job.planner.plan().at(0).patience == 4 * 7ms);
}

TEST_CASE("forgetting an id spoils only the step that it was part of") {
  const auto buckets_after = [](std::uint32_t forgotten) {
    training job(1);
    job.step({1, 2, 3});
    job.step({1, 2});
    job.planner.forget(forgotten);
    return job.step({3}).size();
  };
  CHECK(buckets_after(9) == 1);
  CHECK(buckets_after(1) == 0);
  CHECK(buckets_after(3) == 0);
}

TEST_CASE("steps of more than 65536 ids are not learnt") {
  const auto learns = [](std::uint32_t count) {
    training job(1);
    for (int round = 0; round < 3; ++round)
      for (std::uint32_t id = 1; id <= count; ++id) {
        job.planner.completed(id, 1, job.current_time, job.current_time);
        if (!job.planner.plan().empty())
          return true;
      }
    return false;
  };
  CHECK(learns(65536));
  CHECK_FALSE(learns(65537));
}

TEST_CASE("an id that rests ends the run before it") {
  training job(2);
  job.step(up_to(4));
  const auto planned = job.step(up_to(4));
  REQUIRE(planned.size() == 2);
  job.planner.missed(planned[0].id); // the bucket of ids 1 and 2
  const auto others = job.steps_until_planned({5, 6, 1, 2}).second;
  REQUIRE(others.size() == 1);
  CHECK(others[0].ids == ids{5, 6});
}
