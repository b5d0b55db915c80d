// Process sets between runtimes in one process.
#include <catch2/catch.hpp>

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>

#include "bindings/cxx/runtime_testing.hpp"

using namespace farandole;

namespace {

// Checks sums over the set `ranks`, to which each member contributes `rank + 1`. Returns the first problem.
std::string sums_in(runtime& member, std::uint32_t set, const std::vector<std::int32_t>& ranks, int rounds) {
  float wanted = 0;
  for (auto rank : ranks)
    wanted += static_cast<float>(rank + 1);
  floats tensor;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t count : {std::size_t{8}, std::size_t{100'000}}) {
      tensor.in.assign(count, static_cast<float>(member.rank() + 1));
      auto request = tensor.ask(count == 8 ? "small" : "large");
      request.set = set;
      auto asked = member.submit(request);
      if (auto problem = asked ? asked->wait() : asked.error())
        return problem.text;
      if (tensor.values.front() != wanted || tensor.values.back() != wanted)
        return "set " + std::to_string(set) + " gave " + std::to_string(tensor.values.back());
    }
  return {};
}

// A member that leaves ends the job for all, so every member waits here for the others before it leaves.
void await_all(runtime& member) {
  submission request;
  request.name = "meet";
  request.signature.operation = operation::barrier;
  if (auto all = member.submit(request))
    all->wait();
}

} // namespace

TEST_CASE("sets from the start work at the same time, with and without rank 0") {
  job three(3);
  std::mutex guard;
  std::vector<std::string> problems;
  const std::vector<std::vector<std::int32_t>> sets{{0, 1}, {2, 1}, {2}};
  three.run(
      [&](runtime& member) {
        std::vector<std::thread> threads;
        for (std::uint32_t i = 0; i < sets.size(); ++i) {
          const auto& ranks = sets[i];
          if (std::find(ranks.begin(), ranks.end(), member.rank()) != ranks.end())
            threads.emplace_back([&, i] {
              auto problem = sums_in(member, i + 1, sets[i], 20);
              std::lock_guard lock(guard);
              problems.push_back(std::move(problem));
            });
        }
        for (auto& thread : threads)
          thread.join();
        await_all(member);
      },
      sets);
  CHECK(problems == std::vector<std::string>(5));
}

TEST_CASE("sets can be added and removed repeatedly; a removal fails only the set's pending operations") {
  job three(3, {{"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}});
  std::mutex guard;
  std::vector<std::string> said;
  three.run([&](runtime& member) {
    auto say = [&](std::string text) {
      std::lock_guard lock(guard);
      said.push_back(std::move(text));
    };
    for (int round = 0; round < 5; ++round) {
      auto id = member.add_process_set({2, 1});
      if (!id)
        return say(id.error().text);
      floats lonely, global;
      lonely.in = global.in = {1};
      handle pending;
      if (member.rank() == 2) {
        auto request = lonely.ask("nobody else asks for this");
        request.set = *id;
        pending = *member.submit(request);
      }
      if (member.rank() != 0)
        say(sums_in(member, *id, {1, 2}, 3));
      auto global_sum = *member.submit(global.ask("global"));
      say(member.remove_process_set(*id).text);
      if (pending && pending.wait().kind != error_kind::aborted)
        say("what was pending ended as " + pending.problem().text);
      say(global_sum.wait().text);
      auto after = lonely.ask("late");
      after.set = *id;
      if (auto late = member.submit(after); late || late.error().kind != error_kind::invalid_argument)
        say("a removed set was found");
    }
    await_all(member);
  });
  CHECK(said == std::vector<std::string>(5 * (3 + 3 + 2)));
}

TEST_CASE("members with different sets at the start all fail, and the error names the difference") {
  job two(2);
  std::vector<std::future<error>> starts;
  for (std::int32_t rank = 0; rank < 2; ++rank)
    starts.push_back(std::async(std::launch::async, [&, rank] {
      auto options = two.options_of(rank);
      options.process_sets = {{rank}};
      auto started = runtime::start(options);
      return started ? error{} : started.error();
    }));
  for (auto& start : starts) {
    auto problem = start.get();
    CHECK(problem.kind == error_kind::invalid_argument);
    CHECK(problem.text.find("rank 0 starts with 1 process set: [0] and rank 1") != std::string::npos);
  }
}
