// Workers that serve calls: their number is changed by the caller of the launcher, which also ends the job.
#include "elastic/worker_scheduler_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;
using namespace farandole::testing;

namespace {

worker_scheduler_options serving(std::int32_t fewest, std::int32_t processes) {
  auto options = between(fewest, processes, processes);
  options.serves_calls = true;
  options.cooldown = {1s, 1s};
  return options;
}

} // namespace

TEST_CASE("a job that grows starts workers in free slots, and one that shrinks lets the last ones leave") {
  worker_scheduler job(serving(1, 2));
  job.hosts_found({{"a", 2}, {"b", 2}}, t0);
  CHECK(job.resize(4, t0).starts == starts{{2, "b", 0}, {3, "b", 1}});
  job.generation_formed(1, {0, 1, 2, 3}, t0);
  const auto fewer = job.resize(1, t0);
  CHECK(fewer.retire == slots{3, 2, 1});
  CHECK(fewer.starts.empty());
  CHECK(job.resize(1, t0).retire.empty());
  for (const auto slot : {1, 2, 3})
    CHECK_FALSE(job.ended(slot, 0, t0, 0).over);
  CHECK(job.resize(2, t0).starts == starts{{4, "a", 1}});
}

TEST_CASE("slots for a job that grows may come later") {
  worker_scheduler job(serving(1, 1));
  job.hosts_found({{"a", 1}}, t0);
  CHECK(job.resize(2, t0).starts.empty());
  CHECK(job.hosts_found({{"a", 2}}, t0).starts == starts{{1, "a", 1}});
}

TEST_CASE("any worker that serves calls is replaced, also the last one and one that exits with code 0") {
  worker_scheduler job(serving(1, 1));
  job.hosts_found({{"a", 1}}, t0);
  job.generation_formed(1, {0}, t0);
  const auto step = job.ended(0, 0, t0, 0);
  CHECK_FALSE(step.over);
  CHECK_FALSE(step.complete);
  CHECK(says(step, "Process a[0] exit with status code 0."));
  CHECK_FALSE(job.first_failure());
  CHECK(job.due(t0 + 1s).starts == starts{{1, "a", 0}});
}

TEST_CASE("workers that serve calls may move to other hosts") {
  worker_scheduler job(serving(1, 1));
  job.hosts_found({{"a", 1}}, t0);
  job.generation_formed(1, {0}, t0);
  const auto step = job.hosts_found({{"b", 1}}, t0);
  CHECK_FALSE(step.over);
  CHECK(step.retire == slots{0});
  CHECK(step.starts == starts{{1, "b", 0}});
}

TEST_CASE("a job of workers that serve calls ends when its size is 0 and all have left") {
  worker_scheduler job(serving(1, 2));
  job.hosts_found({{"a", 2}}, t0);
  job.generation_formed(1, {0}, t0);
  const auto step = job.resize(0, t0);
  CHECK(step.complete);
  CHECK_FALSE(step.over);
  CHECK_FALSE(job.ended(0, 0, t0, 0).over); // the other is no member
  CHECK(job.ended(1, 0, t0, 0).over);
  CHECK(job.code() == 0);
  CHECK(job.resize(3, t0).starts.empty());
}

TEST_CASE("a job of workers that serve calls ends at once when its size is 0 and none runs") {
  worker_scheduler job(serving(1, 1));
  job.hosts_found({{"a", 1}}, t0);
  job.ended(0, 1, t0, 0);
  CHECK(job.resize(0, t0).over);
  CHECK(job.code() == 0);
}
