#include "collectives/negotiation/bucket_planner.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using ids = std::vector<std::uint32_t>;

// Steps in which ids become ready a millisecond apart, and somebody has asked for each `ahead` before it is.
class training {
public:
  explicit training(std::size_t buckets) : planner(planner_rules{.buckets = buckets}) {}

  std::vector<bucket> step(const ids& which, std::chrono::nanoseconds ahead = 5ms, std::size_t bytes = 100) {
    std::vector<bucket> planned;
    for (auto id : which) {
      current_time += 1ms;
      planner.completed(id, bytes, current_time - ahead, current_time);
      auto more = planner.plan();
      planned.insert(planned.end(), more.begin(), more.end());
    }
    return planned;
  }
  /// The steps until something is planned, and what.
  std::pair<int, std::vector<bucket>> steps_until_planned(const ids& which, int limit = 5000) {
    for (int count = 1; count <= limit; ++count)
      if (auto planned = step(which); !planned.empty())
        return {count, planned};
    return {limit, {}};
  }

  bucket_planner planner;
  std::chrono::nanoseconds current_time{1s};
};

ids upto(std::uint32_t last) {
  ids all(last);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

} // namespace

TEST_CASE(
    "after two equal steps the order is cut into buckets of about equal bytes, at the end of the second") {
  training job(4);
  CHECK(job.step(upto(12)).empty());
  const auto planned = job.step(upto(12));
  REQUIRE(planned.size() == 4);
  ids all;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(planned[i].id == i + 1);
    CHECK(planned[i].ids.size() == 3);
    all.insert(all.end(), planned[i].ids.begin(), planned[i].ids.end());
  }
  CHECK(all == upto(12));
}

TEST_CASE("bytes count, not ids") {
  training job(2);
  const auto step = [&] {
    std::vector<bucket> planned;
    for (auto id : upto(8)) {
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

TEST_CASE("steps that differ are none to learn from") {
  training job(4);
  for (int i = 0; i < 10; ++i) {
    CHECK(job.step(upto(8)).empty());
    CHECK(job.step({1, 2, 3, 4, 5, 6, 7, 9}).empty());
  }
  // Another order is the same step.
  CHECK(job.step({1, 9, 7, 6, 5, 4, 3, 2}).size() == 4);
}

TEST_CASE("who waits for one tensor before it asks for the next gets no bucket") {
  training job(4);
  for (int i = 0; i < 10; ++i)
    CHECK(job.step(upto(8), 500us).empty());
}

TEST_CASE("a bucket ends where callers wait, and one alone is none") {
  training job(4);
  const auto step = [&] {
    auto planned = job.step({1, 2, 3});
    job.current_time += 10ms; // all of the above is known by now
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

TEST_CASE("patience is four times as long as the ids are apart, within bounds") {
  const auto patience = [](std::chrono::nanoseconds ahead) {
    training job(1);
    job.step(upto(4), ahead);
    return job.step(upto(4), ahead).at(0).patience;
  };
  CHECK(patience(4ms) == 4 * (3ms + 4ms));
  CHECK(patience(90ms) == 100ms);
  training at_once(1);
  for (int i = 0; i < 2; ++i)
    for (auto id : upto(4))
      at_once.planner.completed(id, 1, at_once.current_time, at_once.current_time);
  CHECK(at_once.planner.plan().at(0).patience == 10ms);
}

TEST_CASE("what is missed rests twice as long each time, up to a bound, and as at first once it has served") {
  training job(1);
  const auto miss_again = [&](int served) {
    const auto [steps, planned] = job.steps_until_planned(upto(4));
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

TEST_CASE("a bucket must serve longer than its ids rested before, for them to rest as at first") {
  const auto next_rest = [](int served) {
    training job(1);
    job.step(upto(4));
    job.planner.missed(job.step(upto(4)).at(0).id); // they rest for 4 steps
    const auto id = job.steps_until_planned(upto(4)).second.at(0).id;
    for (int i = 0; i < served; ++i)
      job.planner.served(id);
    job.planner.missed(id);
    return job.steps_until_planned(upto(4)).first;
  };
  CHECK(next_rest(4) == 8);
  CHECK(next_rest(5) == 4);
}

TEST_CASE("ids rest for steps, also for those in which only buckets come") {
  training job(2);
  job.step(upto(4));
  const auto planned = job.step(upto(4));
  REQUIRE(planned.size() == 2);
  job.planner.missed(planned[0].id);
  for (int step = 0; step < 10; ++step)
    job.planner.served(planned[1].id);
  CHECK(job.step(planned[0].ids).empty());
  job.planner.served(planned[1].id);
  CHECK(job.step(planned[0].ids).size() == 1);
}

TEST_CASE("a bucket takes its place among those of a step wherever in the step it comes") {
  training job(1);
  job.step(upto(4));
  REQUIRE(job.step(upto(4)).size() == 1);
  job.step({11, 12, 13}); // from now on, a step begins with 11
  for (int step = 0; step < 10; ++step) {
    CHECK(job.step({11, 12, 13}).empty());
    job.planner.served(1);
  }
}

TEST_CASE("a part ends where it comes nearest to its share") {
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

TEST_CASE("there are never more buckets than wanted; what was dissolved makes room") {
  training job(2);
  job.step(upto(8));
  const auto planned = job.step(upto(8));
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

TEST_CASE("what is forgotten, and steps in which members join, are not planned for") {
  training job(2);
  job.step(upto(8));
  job.step({1, 2, 3, 4});
  job.planner.forget(2);
  CHECK(job.step({5, 6, 7, 8}).empty());
  training other(2);
  other.step(upto(8));
  other.planner.spoil();
  CHECK(other.step(upto(8)).empty());
  CHECK(other.step(upto(8)).size() == 2);
}

TEST_CASE("without buckets nothing is planned") {
  training job(0);
  for (int i = 0; i < 5; ++i)
    CHECK(job.step(upto(8)).empty());
}

TEST_CASE("steps begin where they did, also after a bucket was missed in the midst of one") {
  training job(2);
  job.step(upto(8));
  const auto planned = job.step(upto(8));
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

TEST_CASE("another model's tensors get buckets of their own, and the first one's stay") {
  training job(2);
  job.step(upto(8));
  REQUIRE(job.step(upto(8)).size() == 2);
  for (int step = 0; step < 3; ++step)
    for (const std::uint32_t bucket : {1, 2})
      job.planner.served(bucket);
  const auto [steps, planned] = job.steps_until_planned({21, 22, 23, 24, 25, 26, 27, 28});
  CHECK(steps <= 4);
  REQUIRE(planned.size() == 2);
  CHECK(planned[0].id == 3);
  CHECK(planned[1].ids.back() == 28);
  job.planner.served(1); // the first model's again
}

TEST_CASE("in a step there are never more buckets than wanted") {
  training job(2);
  job.step(upto(8));
  REQUIRE(job.step(upto(8)).size() == 2);
  for (int step = 0; step < 20; ++step) {
    for (const std::uint32_t bucket : {1, 2})
      job.planner.served(bucket);
    CHECK(job.step({21, 22, 23, 24}).empty());
  }
}

TEST_CASE("altogether there are never more buckets than relays keep") {
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

// Both in a row, where callers wait between them for what came before.
std::vector<bucket> two_runs(training& job, const ids& first, std::size_t first_bytes, const ids& second,
                             std::size_t second_bytes) {
  std::vector<bucket> planned;
  const auto run = [&](const ids& which, std::size_t bytes) {
    job.current_time += 10ms;
    for (auto id : which) {
      job.current_time += 1ms;
      job.planner.completed(id, bytes,
                            id == which.front() ? job.current_time - 500us : job.current_time - 5ms,
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

TEST_CASE("where there are more runs than buckets, the longest get one") {
  training job(1);
  CHECK(two_runs(job, {1, 2}, 1000, {3, 4, 5}, 10).empty());
  const auto planned = two_runs(job, {1, 2}, 1000, {3, 4, 5}, 10);
  REQUIRE(planned.size() == 1);
  CHECK(planned[0].ids == ids{3, 4, 5});
}

TEST_CASE("where there are more buckets than runs, the one with most bytes is cut") {
  training job(3);
  CHECK(two_runs(job, {1, 2, 3, 4}, 10, {5, 6, 7, 8}, 1000).empty());
  const auto planned = two_runs(job, {1, 2, 3, 4}, 10, {5, 6, 7, 8}, 1000);
  REQUIRE(planned.size() == 3);
  CHECK(planned[0].ids == ids{1, 2, 3, 4});
  CHECK(planned[1].ids == ids{5, 6});
  CHECK(planned[2].ids == ids{7, 8});
}

TEST_CASE("patience counts from whoever asked first for any of the ids") {
  training job(1);
  for (int count = 0; count < 2; ++count) {
    job.planner.completed(1, 1, job.current_time - 2ms, job.current_time);
    job.planner.completed(2, 1, job.current_time - 6ms, job.current_time + 1ms);
  }
  CHECK(job.planner.plan().at(0).patience == 4 * 7ms);
}

TEST_CASE("an id that is forgotten spoils the step of which it was part, and no other") {
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

TEST_CASE("a step has 65536 ids at most") {
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
  job.step(upto(4));
  const auto planned = job.step(upto(4));
  REQUIRE(planned.size() == 2);
  job.planner.missed(planned[0].id); // of 1 and 2
  const auto others = job.steps_until_planned({5, 6, 1, 2}).second;
  REQUIRE(others.size() == 1);
  CHECK(others[0].ids == ids{5, 6});
}
