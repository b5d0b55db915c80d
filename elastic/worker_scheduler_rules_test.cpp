// The boundary cases of the worker scheduler's rules: one test for each condition.
#include "elastic/worker_scheduler_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;
using namespace farandole::testing;

namespace {

/// A job in generation 1 on these hosts, with all workers that were started, from slot 0 on.
worker_scheduler running_on(const std::vector<host_slots>& hosts, const worker_scheduler_options& options) {
  worker_scheduler job(options);
  slots all;
  for (const auto& start : job.hosts_found(hosts, t0).starts)
    all.push_back(start.slot);
  job.generation_formed(1, all, t0);
  return job;
}

} // namespace

TEST_CASE("a change of the hosts is reported once the job has started, with added and removed slots") {
  worker_scheduler job(between(1, 2, 2));
  CHECK_FALSE(says(job.hosts_found({{"a", 1}}, t0), "have changed"));
  CHECK_FALSE(says(job.hosts_found({{"a", 1}, {"b", 1}}, t0), "have changed"));
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}}, t0).lines.empty());
  CHECK(job.hosts_found({{"a", 1}, {"c", 2}}, t0).lines ==
        std::vector<std::string>{"farandole: the hosts have changed: more slots: c:2; fewer slots: b:1"});
  CHECK(job.hosts_found({{"a", 1}, {"b", 1}, {"c", 2}}, t0).lines ==
        std::vector<std::string>{"farandole: the hosts have changed: more slots: b:1"});
}

TEST_CASE("discovery without a host is reported once the job has started, and again after hosts returned") {
  worker_scheduler fresh(between(1, 1, 1));
  const auto before = fresh.hosts_found({}, t0);
  CHECK_FALSE(says(before, "no host at all"));
  CHECK(says(before,
             "waiting up to 600 s (--elastic-timeout) for more slots: the hosts have fewer slots than "
             "the 1 that the job starts with (-np)"));
  auto job = running_on({{"a", 1}}, between(1, 1, 1));
  CHECK(says(job.hosts_found({}, t0), "no host at all"));
  job.hosts_found({{"a", 1}}, t0);
  CHECK(says(job.hosts_found({}, t0), "no host at all"));
}

TEST_CASE("a finishing job ignores discovery and drains") {
  auto finishing = running_on({{"a", 1}, {"b", 1}, {"d", 1}}, between(1, 3, 3));
  finishing.ended(0, 0, t0, 0);
  const auto step = finishing.hosts_found({{"c", 1}}, t0);
  CHECK_FALSE(step.over);
  CHECK(step.retire.empty());
  CHECK(step.lines.empty());
  const auto [plan, nothing] = finishing.drain_workers({wire_version, {1}, {}}, t0);
  CHECK_FALSE(plan.problem.empty());
  CHECK(plan.leavers.empty());
  CHECK(nothing.retire.empty());
  auto stopped = running_on({{"a", 1}}, between(1, 1, 1));
  CHECK_FALSE(stopped.over());
  stopped.stop();
  CHECK(stopped.over());
  CHECK(stopped.hosts_found({{"c", 1}}, t0).lines.empty());
  CHECK(stopped.leaving(0, t0).retire.empty());
}

TEST_CASE("an unknown worker that leaves changes nothing") {
  auto job = running_on({{"a", 1}, {"b", 1}}, between(1, 2, 2));
  const auto step = job.leaving(7, t0);
  CHECK(step.retire.empty());
  CHECK(step.lines.empty());
}

TEST_CASE("a host that a worker left by plan gets no more workers when other hosts lose slots") {
  auto job = running_on({{"a", 2}, {"b", 1}}, between(1, 3, 3));
  CHECK(job.leaving(1, t0).starts.empty());
  CHECK(job.ended(1, 143, t0, 0).starts.empty());
  const auto step = job.hosts_found({{"a", 2}}, t0);
  CHECK(step.retire == slots{2});
  CHECK(step.starts.empty());
}

TEST_CASE("a drained worker is reported, and replaced on another host at once") {
  auto job = running_on({{"a", 1}, {"b", 1}, {"c", 1}}, between(1, 2, 2));
  const auto [plan, step] = job.drain_workers({wire_version, {}, {"b"}}, t0);
  CHECK(plan.leavers == std::vector<leaver>{{1, 1, "b"}});
  CHECK(says(step, "farandole: Process b[0] is drained: it leaves at the next commit"));
  CHECK(step.starts == starts{{2, "c", 0}});
}

TEST_CASE("a failure counts unless the worker leaves, is unknown, or was left out of a newer generation") {
  worker_scheduler job(between(1, 3, 4));
  job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0);
  CHECK(job.counts(0)); // there is no generation yet
  CHECK_FALSE(job.counts(3));
  job.generation_formed(1, {0, 1, 2}, t0);
  job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, t0);
  CHECK(job.counts(0));
  CHECK(job.counts(3)); // slot 3 is not a member yet
  job.leaving(1, t0);
  CHECK_FALSE(job.counts(1));
  job.generation_formed(2, {2}, t0);
  CHECK_FALSE(job.counts(0));
  CHECK(job.counts(2));
}

TEST_CASE("a new worker's failure is the job's failure until the next generation") {
  auto job = running_on({{"a", 1}}, between(1, 1, 2));
  job.hosts_found({{"a", 1}, {"b", 1}}, t0);
  job.ended(1, 5, t0, 0);
  REQUIRE(job.first_failure());
  CHECK(job.first_failure()->worker == "b[0]");
}

TEST_CASE("in a finishing job, the failure of a worker of an older generation ends nothing") {
  auto job = running_on({{"a", 1}, {"b", 1}, {"c", 1}}, between(1, 3, 3));
  job.generation_formed(2, {1, 2}, t0);
  job.ended(1, 0, t0, 0);
  CHECK_FALSE(job.ended(0, 137, t0, 0).over);
  CHECK(job.ended(2, 0, t0, 0).over);
  CHECK(job.code() == 0);
}

TEST_CASE("a job below its reset limit survives a failure, and a finishing job counts no resets") {
  auto options = between(1, 2, 3);
  options.reset_limit = 1;
  auto job = running_on({{"a", 1}, {"b", 1}}, options);
  CHECK_FALSE(job.ended(1, 1, t0, 0).over);
  options.reset_limit = 0;
  auto finishing = running_on({{"a", 1}, {"b", 1}, {"c", 1}}, options);
  finishing.ended(0, 0, t0, 0);
  CHECK_FALSE(finishing.generation_formed(2, {1, 2}, t0).over);
}

TEST_CASE("the ranks of a drain are those of the last generation only") {
  auto job = running_on({{"a", 1}, {"b", 1}, {"c", 1}}, between(1, 3, 3));
  job.generation_formed(2, {2, 0}, t0);
  CHECK(job.drain_workers({wire_version, {0}, {}}, t0).first.leavers == std::vector<leaver>{{0, 2, "c"}});
  CHECK_FALSE(job.drain_workers({wire_version, {2}, {}}, t0).first.problem.empty());
}

TEST_CASE("a generation without a list of slots has all workers that run and do not leave") {
  worker_scheduler job(between(1, 3, 3));
  job.hosts_found({{"a", 1}, {"b", 1}, {"c", 1}}, t0);
  job.leaving(2, t0);
  job.generation_formed(1, {}, t0);
  CHECK_FALSE(job.ended(0, 1, t0, 0).over);
  CHECK(job.ended(1, 1, t0, 0).over);
}

TEST_CASE("discovery that leaves no member its place ends the job") {
  auto job = running_on({{"a", 2}}, between(1, 2, 2));
  CHECK_FALSE(job.ended(0, 9, t0, 0).over);
  CHECK(job.hosts_found({{"a", 1}}, t0).over); // only the first worker of host a may stay, and it has failed
}

TEST_CASE("fixed hosts with a cooldown are waited for, and a step that ends the job starts no worker") {
  auto options = between(3, 3, 3);
  options.hosts_may_come = false;
  options.cooldown = {{10s, 60s}};
  worker_scheduler waiting(options);
  CHECK_FALSE(waiting.hosts_found({{"a", 1}}, t0).over);
  options.cooldown.reset();
  auto job = running_on({{"a", 1}, {"b", 2}, {"c", 1}}, options);
  const auto step = job.hosts_found({{"a", 1}, {"c", 1}}, t0);
  CHECK(step.retire == slots{1, 2});
  CHECK(step.over);
  CHECK(step.starts.empty());
}

TEST_CASE("the worker scheduler requests the earliest time at which a step is due, and once") {
  auto options = between(2, 2, 2);
  options.timeout = 30s;
  options.cooldown = {{60s, 60s}};
  auto job = running_on({{"a", 1}, {"b", 1}}, options);
  const auto failure = job.ended(1, 1, t0, 0);
  CHECK(failure.call_next == t0 + 30s); // before the host's cooldown ends
  CHECK(says(failure, "the job has fewer workers than the 2 workers that it needs (--min-np): 1"));
  CHECK_FALSE(job.due(t0 + 29s).call_next); // too early: no step is due, and the time was requested already
  CHECK_FALSE(job.due(t0 + 29s).over);
  // An earlier time is requested when it becomes known.
  options = between(1, 3, 3);
  options.cooldown = {{10s, 60s}};
  auto other = running_on({{"a", 1}, {"b", 1}, {"c", 1}}, options);
  CHECK(other.ended(1, 1, t0, 0.9).call_next == t0 + 19s);
  CHECK(other.ended(2, 1, t0, 0.1).call_next == t0 + 11s);
}

TEST_CASE("a finishing job requests no more time") {
  auto options = between(1, 4, 4);
  options.cooldown = {{10s, 60s}};
  auto job = running_on({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, options);
  CHECK(job.ended(1, 1, t0, 0).call_next == t0 + 10s);
  job.ended(2, 1, t0, 0.9);
  job.ended(0, 0, t0, 0);
  CHECK_FALSE(job.due(t0 + 10s).call_next);
}
