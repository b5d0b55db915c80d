// Whole jobs in one process: a rendezvous and several runtimes, each with its own event loop, lane and shared
// segment.
#include <catch2/catch.hpp>

#include <future>
#include <thread>

#include "actors/event_loop/loop.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "bindings/cxx/runtime_testing.hpp"
#include "messages/record/event_reader.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

// Catch's assertions are for one thread only: the members return their problems, and the test's thread checks them.
std::string allreduce_rounds(runtime& member, const std::string& name, std::size_t count, int rounds,
                             completion_mode completion = completion_mode::any) {
  floats tensor;
  for (int round = 0; round < rounds; ++round) {
    tensor.in.assign(count, static_cast<float>(member.rank() + 1 + round));
    auto request = tensor.ask(name);
    request.completion = completion;
    auto asked = member.submit(request);
    if (!asked)
      return asked.error().text;
    if (auto problem = asked->wait())
      return problem.text;
    auto size = member.size();
    auto wanted = static_cast<float>(size * (size + 1) / 2 + size * round);
    for (auto value : tensor.values)
      if (value != wanted)
        return name + ": round " + std::to_string(round) + " gave " + std::to_string(value);
  }
  return {};
}

// Rows of two floats that encode the sender, the receiver and the round. The splits change from round to round, the
// shape does not.
std::string alltoall_rounds(runtime& member, int rounds) {
  const auto size = member.size(), rank = member.rank();
  const auto rows = [&](int round, int from, int to) {
    return (from + round) % size == to ? 3 + from : from;
  };
  const auto label = [&](int round, int from, int to) {
    return static_cast<float>(100 * round + 10 * from + to);
  };
  for (int round = 0; round < rounds; ++round) {
    floats tensor;
    std::vector<std::int64_t> splits;
    std::vector<float> wanted;
    for (int other = 0; other < size; ++other) {
      splits.push_back(rows(round, rank, other));
      tensor.in.insert(tensor.in.end(), 2 * static_cast<std::size_t>(splits.back()),
                       label(round, rank, other));
      wanted.insert(wanted.end(), 2 * static_cast<std::size_t>(rows(round, other, rank)),
                    label(round, other, rank));
    }
    auto request = tensor.ask("dealt");
    request.signature.operation = operation::alltoall;
    request.signature.shape = {static_cast<std::int64_t>(tensor.in.size()) / 2, 2};
    request.output = nullptr;
    request.splits = splits;
    auto asked = member.submit(request);
    if (auto problem = asked ? asked->wait() : asked.error())
      return problem.text;
    const auto& result = asked->result();
    const auto* got = reinterpret_cast<const float*>(result.bytes.data());
    if (std::vector(got, got + result.bytes.size() / sizeof(float)) != wanted)
      return "round " + std::to_string(round) + " dealt out wrongly";
    for (int other = 0; other < size; ++other)
      if (result.first_dims.at(static_cast<std::size_t>(other)) != rows(round, other, rank))
        return "round " + std::to_string(round) + " miscounts the rows from " + std::to_string(other);
  }
  return {};
}

// A group of two tensors, one of which has fewer rows than the job has members.
std::string reducescatter_rounds(runtime& member, int rounds) {
  const auto size = static_cast<std::size_t>(member.size()), rank = static_cast<std::size_t>(member.rank());
  for (int round = 0; round < rounds; ++round) {
    floats many, floats;
    many.in.resize(2 * size + 1);
    for (std::size_t i = 0; i < many.in.size(); ++i)
      many.in[i] = static_cast<float>(i + rank);
    floats.in = {static_cast<float>(rank)};
    std::vector<submission> submissions{many.ask("many"), floats.ask("one")};
    for (auto& request : submissions)
      request.signature.operation = operation::reducescatter;
    submissions[0].output = nullptr;
    auto asked = member.submit_group(submissions);
    if (!asked)
      return asked.error().text;
    for (auto& handle : *asked)
      if (auto problem = handle.wait())
        return problem.text;
    const auto ranks = static_cast<float>(size * (size - 1) / 2);
    const auto first = 2 * rank + (rank > 0), own = std::size_t{2} + (rank == 0);
    const auto& bytes = (*asked)[0].result().bytes;
    if (bytes.size() != own * sizeof(float) ||
        (*asked)[0].result().first_dims.at(0) != static_cast<std::int64_t>(own))
      return "a segment of another size";
    for (std::size_t i = 0; i < own; ++i)
      if (reinterpret_cast<const float*>(bytes.data())[i] != static_cast<float>((first + i) * size) + ranks)
        return "round " + std::to_string(round) + " sums up wrongly";
    if ((*asked)[1].result().first_dims.at(0) != (rank == 0) || (rank == 0 && floats.values[0] != ranks))
      return "the only row went elsewhere";
  }
  return {};
}

} // namespace

TEST_CASE("a job of one rank needs no rendezvous and applies the postscale") {
  options options;
  options.read_environment = false;
  auto member = runtime::start(options);
  REQUIRE(member);
  floats tensor;
  tensor.in = {1, 2, 3};
  auto request = tensor.ask("t", reduce_op::average);
  request.signature.postscale = 2;
  auto asked = (*member)->submit(request);
  REQUIRE(asked);
  CHECK_FALSE(asked->wait());
  CHECK(tensor.values == std::vector<float>{2, 4, 6});
}

TEST_CASE("a late member refuses all calls until its elastic loop begins, and another one none") {
  options options;
  options.read_environment = false;
  options.settings = {{"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}};
  for (const bool late : {true, false}) {
    auto member = runtime::start(options);
    REQUIRE(member);
    floats tensor{{1}, {}}, other{{1}, {}};
    const auto kinds = [&] {
      const std::vector<submission> group{tensor.ask("a"), other.ask("b")};
      const auto single = (*member)->submit(tensor.ask("c"));
      const auto together = (*member)->submit_group(group);
      return std::vector<error_kind>{single ? single->wait().kind : single.error().kind,
                                     together ? together->back().wait().kind : together.error().kind,
                                     (*member)->add_process_set({0}).error().kind,
                                     (*member)->remove_process_set(1).kind};
    };
    // A job of one rank has no other set.
    const std::vector<error_kind> accepted{error_kind::none, error_kind::none, error_kind::invalid_argument,
                                           error_kind::invalid_argument};
    (*member)->await_loop(late);
    CHECK(kinds() == (late ? std::vector(4, error_kind::precondition) : accepted));
    (*member)->enter_loop();
    CHECK(kinds() == accepted);
  }
}

TEST_CASE("the steps that a program marks are in its record, in their order") {
  const temporary_folder folder;
  const auto path = folder.file("rank-0.events");
  options options;
  options.read_environment = false;
  options.settings = {{"FARANDOLE_RECORDER_FILE", path}, {"FARANDOLE_RECORDER_EVENTS", "64"}};
  {
    auto member = runtime::start(options);
    REQUIRE(member);
    CHECK_FALSE((*member)->mark_step());
    CHECK_FALSE((*member)->mark_step());
  }
  options.settings = {{"FARANDOLE_RECORDER_EVENTS", "0"}};
  auto unrecorded = runtime::start(options);
  REQUIRE(unrecorded);
  CHECK_FALSE((*unrecorded)->mark_step());

  const auto region = event_region::open(path, 64);
  REQUIRE(region);
  const auto record = read_event_record((*region)->bytes());
  REQUIRE(record);
  std::vector<std::uint64_t> steps;
  for (const auto& thread : record->threads)
    for (const auto& entry : thread.events)
      if (entry.kind == event_kind::step)
        steps.push_back(entry.first);
  CHECK(steps == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("allreduce gives the right sums by name, by id and on the fast path") {
  auto size = GENERATE(2, 3);
  job together(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::vector<std::uint64_t> on_fast_path(static_cast<std::size_t>(size));
  together.run([&](runtime& member) {
    auto& problem = said[static_cast<std::size_t>(member.rank())];
    problem = allreduce_rounds(member, "small", 5, 8);
    if (problem.empty())
      problem = allreduce_rounds(member, "large", 300'001, 4);
    on_fast_path[static_cast<std::size_t>(member.rank())] = member.count().on_fast_path;
  });
  for (auto& problem : said)
    CHECK(problem == "");
  for (auto count : on_fast_path)
    CHECK(count > 0);
}

TEST_CASE("an alltoall under one id may change its splits in every step, between other collectives") {
  auto size = GENERATE(1, 2, 3);
  job together(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  together.run([&](runtime& member) {
    auto& problem = said[static_cast<std::size_t>(member.rank())];
    problem = alltoall_rounds(member, 5) + reducescatter_rounds(member, 4) + alltoall_rounds(member, 3) +
              allreduce_rounds(member, "large", 100'001, 2);
  });
  for (auto& problem : said)
    CHECK(problem == "");
}

namespace {

/// Both members repeat an operation until it uses the fast path; in the last step, rank 1 calls `last` with its handle.
std::vector<std::string> repeated(operation kind, const std::function<void(handle& asked)>& last) {
  job together(2);
  std::vector<std::string> said(2);
  together.run([&](runtime& member) {
    auto& problem = said[static_cast<std::size_t>(member.rank())];
    std::vector<float> rows(kind == operation::alltoall ? 2 : 20'000, 1), sums(rows.size());
    submission request;
    request.name = "repeated";
    request.signature.operation = kind;
    request.signature.shape = {static_cast<std::int64_t>(rows.size())};
    request.input = reinterpret_cast<const std::byte*>(rows.data());
    if (kind == operation::allreduce)
      request.output = reinterpret_cast<std::byte*>(sums.data());
    request.completion = completion_mode::wait;
    constexpr int steps = 20;
    for (int step = 0; step <= steps && problem.empty(); ++step) {
      auto asked = member.submit(request);
      if (!asked) {
        problem = asked.error().text;
      } else if (step == steps && member.rank() == 1) {
        last(*asked);
      } else {
        problem = asked->wait().text;
        const bool complete = kind == operation::alltoall
                                  ? asked->result().bytes.size() == rows.size() * sizeof(float)
                                  : sums.back() == 2;
        if (problem.empty() && !complete)
          problem = "the result is wrong";
      }
    }
    // The rows must live until this allreduce has completed.
    if (problem.empty())
      problem = allreduce_rounds(member, "at the end", 8, 1);
    if (problem.empty() && member.count().on_fast_path == 0)
      problem = "never on the fast path";
  });
  return said;
}

} // namespace

TEST_CASE("a caller that stops waiting, or never waits, does not block the other members") {
  const auto kind = GENERATE(operation::alltoall, operation::allreduce);
  const auto stops = [](handle& asked) {
    asked.wait(std::chrono::steady_clock::now());
    std::promise<void> done;
    asked.on_settled([&] { done.set_value(); });
    done.get_future().wait();
  };
  const auto drops = [](handle& asked) { asked = {}; };
  const auto number = GENERATE(0, 1);
  for (auto& problem : repeated(kind, number == 0 ? std::function<void(handle&)>(stops) : drops))
    CHECK(problem == "");
}

TEST_CASE("the runtimes of two jobs work in one process") {
  job first(2), second(2);
  std::vector<std::string> said(4), problems;
  std::thread other([&] {
    problems = second.start_problems([&](runtime& member) {
      said[2 + static_cast<std::size_t>(member.rank())] = allreduce_rounds(member, "x", 1000, 5);
    });
  });
  first.run([&](runtime& member) {
    said[static_cast<std::size_t>(member.rank())] = allreduce_rounds(member, "x", 1000, 5);
  });
  other.join();
  CHECK(problems == std::vector<std::string>(2));
  for (auto& problem : said)
    CHECK(problem == "");
}

TEST_CASE("a mismatch between ranks fails the tensor on all ranks, and the job goes on") {
  job together(2);
  std::vector<error> mismatch(2);
  std::vector<std::string> after(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    floats tensor;
    tensor.in.assign(3 + rank, 1.0f);
    if (auto asked = member.submit(tensor.ask("uneven")))
      mismatch[rank] = asked->wait();
    after[rank] = allreduce_rounds(member, "even", 3, 2);
  });
  for (auto& problem : mismatch) {
    CHECK(problem.kind == error_kind::mismatch);
    CHECK_THAT(problem.text, Catch::Contains("uneven") && Catch::Contains("[3]") && Catch::Contains("[4]"));
  }
  for (auto& problem : after)
    CHECK(problem == "");
}

TEST_CASE("a cancelled operation ends aborted on every member") {
  job together(2);
  std::vector<error> ends(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    floats tensor, go;
    tensor.in = {1};
    go.in = {1};
    if (rank == 0) {
      auto asked = member.submit(tensor.ask("taken back"));
      asked->cancel();
      ends[0] = asked->wait();
      static_cast<void>(member.submit(go.ask("go"))->wait());
      static_cast<void>(member.submit(go.ask("stay"))->wait());
    } else {
      static_cast<void>(member.submit(go.ask("go"))->wait());
      ends[1] = member.submit(tensor.ask("taken back"))->wait();
      static_cast<void>(member.submit(go.ask("stay"))->wait());
    }
  });
  for (auto& problem : ends)
    CHECK(problem.kind == error_kind::aborted);
}

TEST_CASE("the shutdown of one member fails the pending operations of the others") {
  job together(2);
  error pending_end, later;
  bool alive = true;
  together.run([&](runtime& member) {
    if (member.rank() == 0)
      return;
    floats tensor;
    tensor.in = {1};
    auto asked = member.submit(tensor.ask("never"));
    pending_end = asked ? asked->wait() : asked.error(); // the other member may have left already
    alive = member.alive();
    auto late = member.submit(
        tensor.ask("late")); // refused, or let in just before the submission queue closed, and failed
    later = late ? late->wait(std::chrono::steady_clock::now() + std::chrono::minutes{1}) : late.error();
  });
  CHECK(pending_end.kind == error_kind::shut_down);
  CHECK_THAT(pending_end.text, Catch::Contains("rank 0 on ") && Catch::Contains("called shutdown()"));
  CHECK_FALSE(alive); // so that init() begins anew
  CHECK(later.kind == error_kind::shut_down);
}

TEST_CASE("a wait that reaches its deadline times out, and the operation goes on") {
  job together(2);
  error first, second;
  together.run([&](runtime& member) {
    floats tensor, go;
    tensor.in = {1};
    go.in = {1};
    if (member.rank() == 0) {
      auto asked = member.submit(tensor.ask("slow"));
      first = asked->wait(std::chrono::steady_clock::now());
      static_cast<void>(member.submit(go.ask("go"))->wait());
      second = asked->wait();
    } else {
      static_cast<void>(member.submit(go.ask("go"))->wait());
      static_cast<void>(member.submit(tensor.ask("slow"))->wait());
    }
  });
  CHECK(first.kind == error_kind::timed_out);
  CHECK(second.kind == error_kind::none);
}

TEST_CASE("a callback is called although no thread waits, also on the fast path") {
  job together(2);
  std::vector<std::string> said(2);
  std::vector<std::uint64_t> on_fast_path(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    said[rank] = allreduce_rounds(member, "known", 4, 4);
    floats tensor;
    tensor.in = {1, 2, 3, 4};
    auto asked = member.submit(tensor.ask("known"));
    std::promise<void> called;
    asked->on_settled([&] { called.set_value(); });
    if (called.get_future().wait_for(std::chrono::minutes{1}) != std::future_status::ready)
      said[rank] += "no callback";
    else if (tensor.values != std::vector<float>{2, 4, 6, 8})
      said[rank] += "wrong result";
    on_fast_path[rank] = member.count().on_fast_path;
  });
  for (auto& problem : said)
    CHECK(problem == "");
  for (auto count : on_fast_path)
    CHECK(count > 0);
}

TEST_CASE("an operation that one member leaves to a callback never enters the fast path, or leaves it") {
  job together(2);
  std::vector<std::string> said(2);
  std::vector<std::vector<std::uint64_t>> on_fast_path(2);
  together.run([&](runtime& member) {
    const auto rank = static_cast<std::size_t>(member.rank());
    const auto own = rank == 0 ? completion_mode::callback : completion_mode::wait;
    const auto play = [&](const char* name, int rounds, completion_mode completion) {
      said[rank] += allreduce_rounds(member, name, 4, rounds, completion);
      on_fast_path[rank].push_back(member.count().on_fast_path);
    };
    play("never", 5, own);
    play("once", 5, completion_mode::wait);
    play("once", 5, own);
    play("once", 5, completion_mode::wait);
  });
  for (auto& problem : said)
    CHECK(problem == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(on_fast_path[rank].size() == 4);
    CHECK(on_fast_path[rank][0] == 0);
    CHECK(on_fast_path[rank][1] > 0);
    // Rank 1 may have published the round that rank 0 leaves, and then retracts it.
    CHECK(on_fast_path[rank][2] <= on_fast_path[rank][1] + rank);
    CHECK(on_fast_path[rank][3] == on_fast_path[rank][2]);
  }
}

TEST_CASE("a callback after the end of the job may call the runtime again at once") {
  job together(2);
  std::vector<std::string> said(2);
  error late;
  together.run([&](runtime& member) {
    const auto rank = static_cast<std::size_t>(member.rank());
    said[rank] = allreduce_rounds(member, "known", 4, 4);
    if (member.rank() == 1)
      return; // rank 1 leaves, and the job ends
    floats tensor, again;
    tensor.in = {1, 2, 3, 4};
    again.in = {1};
    auto asked = member.submit(tensor.ask("known"));
    if (!asked) {
      late = asked.error();
      return;
    }
    std::promise<void> called;
    asked->on_settled([&] {
      asked->cancel();
      auto refused = member.submit(again.ask("another"));
      late = refused ? error{} : refused.error();
      called.set_value();
    });
    if (called.get_future().wait_for(std::chrono::minutes{1}) != std::future_status::ready)
      said[rank] += "no callback";
  });
  for (auto& problem : said)
    CHECK(problem == "");
  CHECK(late.kind == error_kind::shut_down);
}
