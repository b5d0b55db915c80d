#include "elastic/worker_scheduler_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;
using namespace farandole::testing;

namespace {

/// Two hosts of one slot each, in generation 1, with slots 0 (a) and 1 (b).
worker_scheduler two_running(worker_scheduler_options options = between(1, 2, 2)) {
  worker_scheduler job(options);
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}}, t0).starts == starts{{0, "a", 0}, {1, "b", 0}});
  job.generation_formed(1, {0, 1}, t0);
  return job;
}

} // namespace

TEST_CASE("the first start waits for the job's number of slots, and then takes up to the limit") {
  worker_scheduler job(between(1, 3, 4));
  const auto waiting = job.hosts_found({{"a", 2}}, t0);
  CHECK(waiting.starts.empty());
  CHECK(waiting.call_next == t0 + 600s);
  const auto step = job.hosts_found({{"a", 2}, {"b", 3}}, t0 + 1s);
  CHECK(step.starts == starts{{0, "a", 0}, {1, "a", 1}, {2, "b", 0}, {3, "b", 1}});
  CHECK(job.hosts_found({{"a", 2}, {"b", 3}}, t0 + 2s).starts.empty());
  CHECK_FALSE(job.due(t0 + 600s).over);
}

TEST_CASE("a job whose workers all succeed ends with code 0") {
  auto job = two_running();
  const auto first = job.ended(1, 0, t0, 0);
  CHECK_FALSE(first.over);
  CHECK(first.complete);
  CHECK(first.lines.empty());
  const auto last = job.ended(0, 0, t0, 0);
  CHECK(last.over);
  CHECK_FALSE(last.complete); // reported once
  CHECK(job.code() == 0);
  CHECK_FALSE(job.first_failure());
}

TEST_CASE("new hosts get workers with new numbers, up to the limit") {
  auto job = two_running(between(1, 2, 3));
  const auto step = job.hosts_found({{"a", 1}, {"c", 2}, {"b", 1}}, t0);
  CHECK(step.starts == starts{{2, "c", 0}});
  CHECK(says(step, "more slots: c:2"));
  CHECK(step.retire.empty());
}

TEST_CASE(
    "a failed worker's host gets no new workers and keeps its living ones, and another host replaces it") {
  worker_scheduler job(between(1, 3, 3));
  job.hosts_found({{"a", 2}, {"b", 1}, {"c", 1}}, t0);
  job.generation_formed(1, {0, 1, 2}, t0);
  const auto step = job.ended(0, 3, t0, 0);
  CHECK_FALSE(step.over);
  CHECK(step.retire.empty());
  CHECK(step.starts == starts{{3, "c", 0}});
  CHECK(says(step, "Process a[0] exit with status code 3."));
  CHECK(says(step, "host a gets no new workers any more"));
  CHECK(job.hosts_found({{"a", 4}, {"b", 1}, {"c", 1}}, t0).starts.empty());
}

TEST_CASE("a failed host gets workers again after its cooldown") {
  auto options = between(1, 2, 2);
  options.cooldown = {10s, 60s};
  auto job = two_running(options);
  const auto step = job.ended(1, 1, t0, 0.5);
  CHECK(says(step, "host b gets no new workers for 15 s"));
  CHECK(step.call_next == t0 + 15s);
  CHECK(job.due(t0 + 14s).starts.empty());
  CHECK(job.due(t0 + 15s).starts == starts{{2, "b", 0}});
}

TEST_CASE("a failure is cleared once the survivors have formed a generation") {
  auto job = two_running();
  job.ended(1, 9, t0, 0);
  REQUIRE(job.first_failure());
  job.generation_formed(2, {0}, t0);
  CHECK_FALSE(job.first_failure());
  CHECK(job.ended(0, 0, t0, 0).over);
  CHECK(job.code() == 0);
}

TEST_CASE("a failure reported after the survivors have formed a generation does not count") {
  auto job = two_running();
  job.generation_formed(2, {1}, t0);
  CHECK_FALSE(job.ended(0, 137, t0, 0).over);
  CHECK_FALSE(job.first_failure());
  CHECK(job.ended(1, 0, t0, 0).over);
  CHECK(job.code() == 0);
}

TEST_CASE("a failure without a later generation is the job's failure") {
  auto job = two_running();
  job.ended(1, 9, t0, 0);
  CHECK(job.ended(0, 0, t0, 0).over);
  CHECK(job.code() == 9);
  REQUIRE(job.first_failure());
  CHECK(job.first_failure()->worker == "b[0]");
}

TEST_CASE("a job whose members have all failed is over, even while a new worker starts") {
  auto job = two_running();
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0).starts.empty());
  CHECK(job.ended(0, 4, t0, 0).starts == starts{{2, "c", 0}});
  const auto step = job.ended(1, 5, t0, 0);
  CHECK(step.over);
  CHECK(step.starts.empty());
  CHECK(says(step, "Terminating remaining workers"));
  CHECK(job.code() == 4);
  CHECK(job.ended(2, 143, t0, 0).lines.empty());
}

TEST_CASE("once a worker has succeeded no worker is started, and a later failure ends the others") {
  worker_scheduler job(between(1, 3, 4));
  job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0);
  job.generation_formed(1, {0, 1, 2}, t0);
  job.ended(0, 0, t0, 0);
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, t0).starts.empty());
  const auto step = job.ended(1, 7, t0, 0);
  CHECK(step.over);
  CHECK(job.code() == 7);
}

TEST_CASE("when the last member has succeeded, a worker that had not joined is ended") {
  worker_scheduler job(between(1, 2, 3));
  job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0);
  job.generation_formed(1, {0, 1}, t0);
  CHECK_FALSE(job.ended(0, 0, t0, 0).over);
  const auto step = job.ended(1, 0, t0, 0);
  CHECK(step.over);
  CHECK(job.code() == 0);
  CHECK(says(step, "ending 1 that had not joined it yet"));
}

TEST_CASE("workers of removed hosts leave, and how they end does not matter") {
  auto job = two_running();
  const auto step = job.hosts_found({{"a", 1}}, t0);
  CHECK(step.retire == slots{1});
  CHECK(step.starts.empty());
  CHECK(says(step, "fewer slots: b:1"));
  const auto ended = job.ended(1, 1, t0, 0);
  CHECK_FALSE(ended.over);
  CHECK(ended.lines.empty());
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}}, t0).starts == starts{{2, "b", 0}});
}

TEST_CASE("a host with fewer slots loses its last workers, and a place is free once its worker has ended") {
  worker_scheduler job(between(1, 3, 3));
  job.hosts_found({{"a", 3}}, t0);
  job.generation_formed(1, {0, 1, 2}, t0);
  CHECK(job.hosts_found({{"a", 1}}, t0).retire == slots{1, 2});
  CHECK(job.hosts_found({{"a", 2}}, t0).starts.empty());
  CHECK(job.ended(1, 0, t0, 0).starts == starts{{3, "a", 1}});
}

TEST_CASE("a retired worker does not end the job, and the job does not wait for it") {
  auto job = two_running();
  job.hosts_found({{"a", 1}}, t0);
  CHECK(job.ended(0, 0, t0, 0).over);
  CHECK(job.code() == 0);
}

TEST_CASE("discovery that removes all members ends the job with the reason, and an empty list is ignored") {
  auto job = two_running();
  const auto none = job.hosts_found({}, t0);
  CHECK_FALSE(none.over);
  CHECK(none.retire.empty());
  CHECK(says(none, "no host at all"));
  CHECK(job.hosts_found({}, t0).lines.empty());
  const auto others = job.hosts_found({{"c", 2}}, t0);
  CHECK(others.over);
  CHECK(job.code() == 1);
  CHECK(says(others, "at least one of the old hosts"));
}

TEST_CASE("before the first generation all hosts may change") {
  worker_scheduler job(between(1, 1, 1));
  job.hosts_found({{"a", 1}}, t0);
  const auto step = job.hosts_found({{"b", 1}}, t0);
  CHECK(step.retire == slots{0});
  CHECK(step.starts == starts{{1, "b", 0}});
}

TEST_CASE("a job that has too few workers for too long ends and says what to do") {
  auto options = between(2, 2, 2);
  options.timeout = 30s;
  auto job = two_running(options);
  const auto step = job.ended(1, 1, t0, 0);
  CHECK_FALSE(step.over);
  CHECK(step.call_next == t0 + 30s);
  CHECK_FALSE(job.due(t0 + 29s).over);
  const auto late = job.due(t0 + 30s);
  CHECK(late.over);
  CHECK(late.timed_out);
  CHECK(job.code() == 1);
  CHECK(says(late, "30 s (--elastic-timeout)"));
  CHECK(says(late, "b:1 (failed)"));
}

TEST_CASE("a host that comes in time ends the wait for workers") {
  auto options = between(2, 2, 2);
  options.timeout = 30s;
  auto job = two_running(options);
  job.ended(1, 1, t0, 0);
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0 + 10s).starts == starts{{2, "c", 0}});
  CHECK_FALSE(job.due(t0 + 30s).over);
}

TEST_CASE("a job of fixed hosts does not wait for workers that cannot come") {
  auto options = between(2, 2, 2);
  options.hosts_may_come = false;
  auto job = two_running(options);
  const auto step = job.ended(1, 6, t0, 0);
  CHECK(step.over);
  CHECK(job.code() == 6);
  CHECK(says(step, "no other hosts can come"));
}

TEST_CASE("every generation after the first is a reset, and too many resets end the job") {
  auto options = between(1, 2, 3);
  options.reset_limit = 1;
  auto job = two_running(options);
  CHECK_FALSE(job.generation_formed(2, {0, 1}, t0).over);
  CHECK_FALSE(job.generation_formed(2, {0, 1}, t0).over); // the generation is known already
  const auto step = job.generation_formed(3, {0, 1}, t0);
  CHECK(step.over);
  CHECK(job.code() == 1);
  CHECK(says(step, reset_limit_text(1)));
}

TEST_CASE("a failure at the reset limit ends the job at once") {
  auto options = between(1, 2, 2);
  options.reset_limit = 0;
  auto job = two_running(options);
  const auto step = job.ended(0, 1, t0, 0);
  CHECK(step.over);
  CHECK(says(step, "reset limit is exceeded"));
}

TEST_CASE("a new worker that fails before it is a member costs no reset") {
  auto options = between(1, 2, 3);
  options.reset_limit = 0;
  auto job = two_running(options);
  REQUIRE(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0).starts.size() == 1);
  CHECK_FALSE(job.ended(2, 1, t0, 0).over);
}

TEST_CASE("a job that was told to stop starts no more workers") {
  auto job = two_running(between(1, 2, 3));
  job.stop();
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0).starts.empty());
  CHECK(job.ended(0, 143, t0, 0).lines.empty());
}

TEST_CASE("a worker that was told to end is no failure, and its host gets no new worker") {
  worker_scheduler job(between(1, 3, 3));
  job.hosts_found({{"a", 3}, {"b", 1}}, t0);
  job.generation_formed(1, {0, 1, 2}, t0);
  const auto step = job.leaving(1, t0);
  CHECK(step.retire == slots{1});
  CHECK(step.starts == starts{{3, "b", 0}}); // other hosts have room
  CHECK(says(step, "Process a[1] was told to end"));
  CHECK(job.leaving(1, t0).retire.empty());
  const auto ended = job.ended(1, 143, t0, 0);
  CHECK(ended.lines.empty());
  CHECK(ended.starts.empty());
  CHECK_FALSE(ended.over);
}

TEST_CASE("a drained host gets workers again once discovery lists more slots for it") {
  worker_scheduler job(between(1, 2, 2));
  job.hosts_found({{"a", 1}, {"b", 2}}, t0);
  job.generation_formed(1, {0, 1}, t0);
  const auto [plan, step] = job.drain_workers({wire_version, {}, {"b"}}, t0);
  CHECK(plan.leavers == std::vector<leaver>{{1, 1, "b"}});
  CHECK(step.retire == slots{1});
  CHECK(step.starts.empty());
  CHECK(job.ended(1, 0, t0, 0).starts.empty());
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}}, t0).starts.empty()); // discovery catches up with the drain
  CHECK(job.hosts_found({{"a", 1}}, t0).starts.empty());
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}}, t0).starts == starts{{2, "b", 0}});
}

TEST_CASE("the ranks of a drain are those of the last generation, and a refused drain changes nothing") {
  worker_scheduler job(between(2, 3, 3));
  job.hosts_found({{"a", 2}, {"b", 1}}, t0);
  job.generation_formed(1, {2, 0, 1}, t0);
  const auto [none, no_step] = job.drain_workers({wire_version, {0, 1}, {}}, t0);
  CHECK_FALSE(none.problem.empty());
  CHECK(no_step.retire.empty());
  const auto [plan, step] = job.drain_workers({wire_version, {0}, {}}, t0);
  CHECK(plan.leavers == std::vector<leaver>{{0, 2, "b"}});
  CHECK(step.retire == slots{2});
}

TEST_CASE("when the last member is told to end the job is over") {
  auto job = two_running();
  CHECK_FALSE(job.leaving(0, t0).over);
  const auto step = job.leaving(1, t0);
  CHECK(step.over);
  CHECK(job.code() == 143);
  CHECK_FALSE(job.drain_workers({wire_version, {0}, {}}, t0).first.problem.empty());
}

TEST_CASE("once a worker has succeeded, another worker that was told to end changes nothing") {
  auto job = two_running();
  job.ended(0, 0, t0, 0);
  CHECK_FALSE(job.leaving(1, t0).over);
  CHECK(job.ended(1, 0, t0, 0).lines.empty());
}

TEST_CASE("a restarted launcher starts no workers on blacklisted hosts of the earlier launcher") {
  const wall_time wall{std::chrono::seconds{1'800'000'000}};
  auto options = between(1, 1, 3);
  options.cooldown = {{10s, 60s}};
  auto before = two_running(options);
  const auto failure = before.ended(1, 3, t0, 0);
  CHECK(failure.blacklisted);
  CHECK_FALSE(before.ended(0, 3, t0, 0).blacklisted); // the job ends
  worker_scheduler job(options);
  const auto taken = job.take_over(before.failed_hosts(t0, wall), t0 + 90s, wall + 4s);
  CHECK(says(taken, "host b gets no new workers for 6 s"));
  CHECK(says(taken, "says the journal"));
  const auto step = job.hosts_found({{"a", 1}, {"b", 1}}, t0 + 90s);
  CHECK(step.starts == starts{{0, "a", 0}});
  CHECK(step.call_next == t0 + 96s);
  CHECK(job.due(t0 + 96s).starts == starts{{1, "b", 0}});
}

TEST_CASE("fixed hosts that are all blacklisted are waited for only if one of them returns") {
  const wall_time wall{std::chrono::seconds{1'800'000'000}};
  auto options = between(1, 1, 1);
  options.hosts_may_come = false;
  worker_scheduler back(options);
  back.take_over({{"a", 1, wall + 5s, false}}, t0, wall);
  const auto waiting = back.hosts_found({{"a", 1}}, t0);
  CHECK_FALSE(waiting.over);
  CHECK(waiting.call_next == t0 + 5s);
  CHECK(back.due(t0 + 5s).starts == starts{{0, "a", 0}});
  worker_scheduler gone(options);
  CHECK(says(gone.take_over({{"a", 1, {}, true}}, t0, wall), "gets no new workers at all"));
  const auto in_vain = gone.hosts_found({{"a", 1}}, t0);
  CHECK(in_vain.over);
  CHECK(says(in_vain, "no other hosts can come; hosts: a:1 (failed)"));
}
