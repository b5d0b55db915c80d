// Members with many callers: threads submit, wait, poll, cancel, change process sets and read the member's state at
// once, while event loops, lanes, heartbeats and listeners run. ThreadSanitizer looks for data races in these tests
// (`tools/test threads`); the tests themselves check the results.
#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/cxx/broken_links_testing.hpp"
#include "bindings/cxx/elastic_testing.hpp"

using namespace farandole;

namespace {

/// Collects the problems that threads report, because Catch's assertions are for one thread only.
class problem_list {
public:
  void add(std::string text) {
    if (text.empty())
      return;
    std::lock_guard lock(mutex_);
    all_.push_back(std::move(text));
  }
  std::vector<std::string> all() const {
    std::lock_guard lock(mutex_);
    return all_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

/// Threads that the destructor joins.
class threads {
public:
  threads() = default;
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;
  ~threads() { join(); }

  void start(std::function<void()> action) { all_.emplace_back(std::move(action)); }
  void join() {
    for (auto& thread : all_)
      thread.join();
    all_.clear();
  }

private:
  std::vector<std::thread> all_;
};

error outcome_of(expected<handle> asked) {
  return asked ? asked->wait() : asked.error();
}

float sum_of_ranks(std::int32_t size) {
  return static_cast<float>(size * (size - 1)) / 2;
}

error reduce_once(runtime& member, const std::string& name, std::size_t count, completion_mode completion,
                  float& sum, std::uint32_t set = 0) {
  floats tensor{std::vector<float>(count, static_cast<float>(member.rank())), {}};
  auto wanted = tensor.ask(name);
  wanted.completion = completion;
  wanted.set = set;
  auto problem = outcome_of(member.submit(wanted));
  sum = tensor.values.back();
  return problem;
}

constexpr std::size_t small = 8, large = 100'001;

std::string reduce(runtime& member, const std::string& name, std::size_t count, int rounds,
                   completion_mode completion) {
  for (int round = 0; round < rounds; ++round) {
    float sum = 0;
    if (auto problem = reduce_once(member, name, count, completion, sum))
      return problem.text;
    if (sum != sum_of_ranks(member.size()))
      return name + ": round " + std::to_string(round) + " gave " + std::to_string(sum);
  }
  return {};
}

/// Learns of completion without waiting: polls one operation, and leaves a callback for the other.
std::string poll_and_call_back(runtime& member, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    floats polled{{1.0F}, {}}, called{{1.0F}, {}};
    auto first = member.submit(polled.ask("polled"));
    auto second = member.submit(called.ask("called back"));
    if (!first || !second)
      return (first ? second : first).error().text;
    std::promise<void> told;
    second->on_settled([&] { told.set_value(); });
    // Any thread may drop a copy of a handle.
    std::thread dropper([copy = *first] { copy.settled(); });
    while (!first->settled())
      std::this_thread::yield();
    dropper.join();
    told.get_future().wait();
    if (first->failed() || second->failed())
      return first->problem().text + second->problem().text;
    if (polled.values[0] + called.values[0] != static_cast<float>(2 * member.size()))
      return "the polled and the called-back operation gave another sum";
  }
  return {};
}

/// Drops one of two copies of each handle before it reads the rows.
std::string exchange_rows(runtime& member, int rounds) {
  const std::vector<float> rows(static_cast<std::size_t>(member.size()), static_cast<float>(member.rank()));
  submission wanted;
  wanted.name = "dealt out";
  wanted.signature.operation = operation::alltoall;
  wanted.signature.shape = {member.size()};
  wanted.input = reinterpret_cast<const std::byte*>(rows.data());
  wanted.completion = completion_mode::wait;
  for (int round = 0; round < rounds; ++round) {
    auto asked = member.submit(wanted);
    if (auto problem = asked ? asked->wait() : asked.error())
      return problem.text;
    const handle copy = *asked;
    *asked = {};
    const auto* got = reinterpret_cast<const float*>(copy.result().bytes.data());
    for (std::int32_t rank = 0; rank < member.size(); ++rank)
      if (got[rank] != static_cast<float>(rank))
        return "a row of rank " + std::to_string(rank) + " is " + std::to_string(got[rank]);
  }
  return {};
}

/// The ends of operations that another thread cancels meanwhile: success or aborted, but the same on all members.
std::vector<error_kind> cancel_operations(runtime& member, int rounds) {
  std::vector<error_kind> ends;
  for (int round = 0; round < rounds; ++round) {
    floats tensor{{1.0F}, {}};
    auto asked = member.submit(tensor.ask("taken back " + std::to_string(round)));
    if (!asked) {
      ends.push_back(asked.error().kind);
      continue;
    }
    std::thread canceller([copy = *asked]() mutable { copy.cancel(); });
    ends.push_back(asked->wait().kind);
    canceller.join();
  }
  return ends;
}

std::string change_sets(runtime& member, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const auto set = member.add_process_set({1, 2});
    if (!set)
      return set.error().text;
    if (member.rank() > 0) {
      float sum = 0;
      if (auto problem = reduce_once(member, "in a set", large, completion_mode::any, sum, *set))
        return problem.text;
      if (sum != 3.0F)
        return "the set's sum is " + std::to_string(sum);
    }
    if (auto problem = member.remove_process_set(*set))
      return problem.text;
  }
  return {};
}

/// Calls the functions of a member that any thread may call at any time.
std::string read_state(runtime& member, const std::atomic<bool>& enough) {
  while (!enough) {
    const auto size = static_cast<std::size_t>(member.size());
    if (!member.alive() || !member.usable_here() || member.slots().size() != size ||
        member.process_sets().at(0).size() != size || member.local_size() > member.size())
      return "a member in its generation is told otherwise";
    const auto counted = member.count();
    const auto submitted = member.submitted().at(0);
    if (counted.submitted > submitted)
      return "fewer were submitted than before";
    if (member.membership_change().first != 0 || member.joins() != 0 || member.process_set_epoch(1) != 0)
      return "something happened that nobody asked for";
    member.kept_sets();
    member.epoch();
    std::this_thread::yield();
  }
  return {};
}

using members = std::vector<member_ptr>;

/// Starts all members, each with a host id of its own if `on_separate_hosts`.
members start(const job& together, std::int32_t size, bool on_separate_hosts) {
  std::vector<starting> all;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    auto options = together.options_of(rank);
    if (on_separate_hosts)
      options.settings["FARANDOLE_HOST_ID"] = "host " + std::to_string(rank);
    all.push_back(started_job::start(std::move(options)));
  }
  members started;
  for (auto& starting_member : all)
    started.push_back(started_job::joined(starting_member));
  return started;
}

std::vector<std::string> busy_callers(members& all) {
  problem_list problems;
  std::vector<std::vector<error_kind>> ends(all.size());
  std::atomic<bool> enough{false};
  threads readers;
  {
    threads callers;
    for (auto& member_runtime : all) {
      auto& member = *member_runtime;
      readers.start([&] { problems.add(read_state(member, enough)); });
      callers.start([&] { problems.add(reduce(member, "small", small, 40, completion_mode::wait)); });
      callers.start([&] { problems.add(reduce(member, "large", large, 6, completion_mode::any)); });
      callers.start([&] { problems.add(poll_and_call_back(member, 10)); });
      callers.start([&] { problems.add(exchange_rows(member, 20)); });
      callers.start([&] { problems.add(change_sets(member, 3)); });
      callers.start([&] { ends[static_cast<std::size_t>(member.rank())] = cancel_operations(member, 10); });
    }
  }
  enough = true;
  readers.join();
  for (auto& end : ends)
    if (end != ends.front())
      problems.add("a cancelled operation ended differently on another member");
  for (auto kind : ends.front())
    if (kind != error_kind::none && kind != error_kind::aborted)
      problems.add("a cancelled operation ended as " + std::string(to_string(kind)));
  return problems.all();
}

/// Rank 0 joins while two threads of each other member go on.
std::vector<std::string> join_early(members& all) {
  problem_list problems;
  threads joiners;
  for (auto& member_runtime : all)
    joiners.start([&, &member = *member_runtime] {
      if (member.rank() > 0) {
        threads callers;
        for (const auto count : {small, large})
          callers.start([&, count] {
            problems.add(
                reduce(member, "go on with " + std::to_string(count), count, 4, completion_mode::wait));
          });
      }
      submission joining;
      joining.name = "join";
      joining.signature.operation = operation::join;
      problems.add(outcome_of(member.submit(joining)).text);
    });
  joiners.join();
  return problems.all();
}

/// Two threads of each member shut it down while a third thread waits for an operation that cannot complete.
std::vector<std::string> leave(members& all) {
  problem_list problems;
  {
    threads callers;
    for (auto& member_runtime : all) {
      auto& member = *member_runtime;
      callers.start([&] {
        floats tensor{{1.0F}, {}};
        const auto problem =
            outcome_of(member.submit(tensor.ask("rank " + std::to_string(member.rank()) + " alone")));
        if (problem.kind != error_kind::shut_down)
          problems.add("an operation of a job that is left ends as " + std::string(to_string(problem.kind)) +
                       ": " + problem.text);
      });
      callers.start([&] { member.shutdown(); });
      callers.start([&] { member.shutdown(); });
    }
  }
  all.clear();
  return problems.all();
}

const std::vector<std::string> no_problems;

} // namespace

TEST_CASE("many threads may call each member at once, until its shutdown and after its restart") {
  const bool on_separate_hosts = GENERATE(false, true);
  constexpr std::int32_t size = 3;
  const job together(size, {{"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}});
  for (int run = 0; run < 2; ++run) {
    auto all = start(together, size, on_separate_hosts);
    CHECK(busy_callers(all) == no_problems);
    CHECK(join_early(all) == no_problems);
    CHECK(leave(all) == no_problems);
  }
}

namespace {

/// Reduces until that fails, with an error of this member's path or one that another member reported.
void reduce_until_lost(runtime& member, const std::string& name, std::size_t count, std::atomic<int>& rounds,
                       problem_list& problems) {
  for (;;) {
    float sum = 0;
    const auto problem = reduce_once(member, name, count, completion_mode::any, sum);
    if (problem.kind == error_kind::disconnected || problem.kind == error_kind::unknown)
      return;
    if (problem)
      return problems.add(problem.text);
    ++rounds;
  }
}

} // namespace

TEST_CASE("a link that breaks under many callers ends the generation, and all members start the next one") {
  const bool on_separate_hosts = GENERATE(false, true);
  const started_job together(2, 2);
  auto all = start(together, 2, on_separate_hosts);
  problem_list problems;
  std::atomic<int> rounds{0};
  {
    threads callers;
    for (auto& member_runtime : all)
      for (const auto& [name, count] :
           std::map<std::string, std::size_t>{{"a", small}, {"b", small}, {"c", large}, {"d", large}})
        callers.start([&, &member = *member_runtime, name = name, count = count] {
          reduce_until_lost(member, name, count, rounds, problems);
        });
    while (rounds < 40)
      std::this_thread::yield();
    CHECK(break_connections_apart_from(together.port()) > 0);
  }
  CHECK(problems.all() == no_problems);
  all.clear();
  all = start(together, 2, on_separate_hosts);
  CHECK(counted(all) == 2.0F);
  CHECK(all[0]->generation() == 2);
}

namespace {

/// Sets `step` to the lowest step of the members: an operation that the restart failed on one member may have
/// succeeded on another.
error least_step(runtime& member, std::uint32_t set, int& step) {
  floats tensor{{static_cast<float>(step)}, {}};
  auto wanted = tensor.ask("go on from", reduce_op::min);
  wanted.set = set;
  auto problem = outcome_of(member.submit(wanted));
  step = static_cast<int>(tensor.values[0]);
  return problem;
}

/// Runs the steps in the set and returns the number of failures. After a failure, all members go on from the same
/// step.
int steps_in_set(runtime& member, std::uint32_t set, int steps, problem_list& problems) {
  int failures = 0;
  for (int step = 0; step < steps; ++step) {
    float sum = 0;
    auto problem = reduce_once(member, "step", step % 2 == 0 ? large : small, completion_mode::any, sum, set);
    if (problem.kind == error_kind::disconnected) {
      ++failures;
      problem = least_step(member, set, step);
      --step;
    } else if (!problem && sum != 1.0F) {
      problems.add("step " + std::to_string(step) + " gave " + std::to_string(sum));
    }
    if (problem) {
      problems.add(problem.text);
      break;
    }
  }
  return failures;
}

} // namespace

TEST_CASE("a restart of a process set disturbs neither callers in other sets nor threads that read state") {
  job together(3, {{"FARANDOLE_TESTING", "1"},
                   {"FARANDOLE_TEST_FAULT", "set=1,rank=0,actor=set_client,at=set_client,message=6"}});
  problem_list problems;
  std::vector<int> failures(2);
  together.run(
      [&](runtime& member) {
        std::atomic<bool> enough{false};
        threads readers;
        readers.start([&] {
          while (!enough) {
            member.process_set_epoch(1);
            member.submitted();
            member.process_sets();
            std::this_thread::yield();
          }
        });
        {
          threads callers;
          if (member.rank() < 2)
            callers.start([&] {
              failures[static_cast<std::size_t>(member.rank())] = steps_in_set(member, 1, 20, problems);
            });
          callers.start([&] { problems.add(reduce(member, "small", small, 40, completion_mode::wait)); });
          callers.start([&] { problems.add(reduce(member, "large", large, 6, completion_mode::any)); });
        }
        if (member.rank() < 2)
          problems.add(member.acknowledge_restart(1, 1).text);
        enough = true;
        readers.join();
        problems.add(reduce(member, "at the end", small, 1, completion_mode::wait));
      },
      {{0, 1}});
  CHECK(problems.all() == no_problems);
  CHECK(failures == std::vector<int>{1, 1});
}
