// Members of a path between hosts that die, stop, abort or leave: the tests check the errors of the other
// members, and that no buffer is written after the return.
#include <catch2/catch.hpp>

#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/p2p/p2p_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("between hosts: every other member's error names a member killed in the middle of an operation") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const message_phase when = GENERATE(message_phase::scatter, message_phase::gather);
  job members(between, 4, [when](member& self) {
    self.probe = [&](message_phase phase, std::size_t piece) {
      if (self.rank == 2 && phase == when && piece == 3)
        ::kill(::getpid(), SIGKILL);
    };
    bytes buffer = contents(dtype::float32, large_count, self.rank, 0);
    const outcome end = self.path->run(large_allreduce(buffer), self.deadline());
    const outcome again = self.path->run(large_allreduce(buffer), self.deadline());
    return std::string{to_string(end.error.kind)} + ", then " + std::string{to_string(again.error.kind)} +
           ": " + end.error.text;
  });
  const std::string wanted = std::string{to_string(error_kind::disconnected)} + ", then " +
                             std::string{to_string(error_kind::disconnected)};
  for (const std::int32_t survivor : {0, 1, 3})
    CHECK_THAT(members.hear(survivor), Catch::StartsWith(wanted) && Catch::Contains("rank 12"));
  CHECK(members.hear(2) == "(dead)");
}

TEST_CASE("between hosts: the next operation's error names a member killed between two operations") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 3, [](member& self) {
    if (std::string problem = barrier(self, 0); !problem.empty())
      return problem;
    if (self.rank == 0)
      ::kill(::getpid(), SIGKILL);
    std::string go;
    take(self.control, go);
    return barrier(self, 1);
  });
  CHECK(members.hear(0) == "(dead)");
  for (const std::int32_t survivor : {1, 2}) {
    members.tell(survivor, "go");
    CHECK_THAT(members.hear(survivor), Catch::StartsWith("rank 10 is lost"));
  }
}

namespace {

struct abort_case {
  const char* name;
  operation op;
  message_phase phase;
  std::size_t piece;     ///< the piece at which one member stops
  std::size_t aborts_at; ///< the piece at which the abort begins
  bool others_may_finish = false;
};

/// Runs one operation on `buffer`; `wide` takes outputs that do not fit there.
outcome run_one(member& self, operation op, bytes& buffer, bytes& wide, const deadline_and_abort& deadline) {
  work bundle = large_allreduce(buffer);
  bundle.operation = op;
  if (op == operation::broadcast)
    bundle.root = 0;
  if (op == operation::barrier)
    bundle.parts.clear();
  if (op == operation::allgather) {
    wide.resize(buffer.size() * static_cast<std::size_t>(self.size));
    bundle.parts[0].output = wide.data();
    bundle.gathered.assign(static_cast<std::size_t>(self.size), buffer.size());
  }
  if (op == operation::alltoall || op == operation::reducescatter) {
    const std::size_t index = buffer.size() / 4 / static_cast<std::size_t>(self.size) * 4;
    wide.resize(index * static_cast<std::size_t>(self.size));
    bundle.parts[0].input_bytes = wide.size();
    bundle.parts[0].output = wide.data();
    bundle.sent.assign(static_cast<std::size_t>(self.size), index);
    bundle.received = bundle.sent;
    bundle.longest = index;
  }
  return self.path->run(bundle, deadline);
}

} // namespace

TEST_CASE("between hosts: an abort in any phase leaves the buffers unchanged after the return") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const abort_case settings =
      GENERATE(abort_case{"exchange", operation::allreduce, message_phase::exchange, 0, 0, true},
               abort_case{"first scatter", operation::allreduce, message_phase::scatter, 0, 0},
               abort_case{"later scatter", operation::allreduce, message_phase::scatter, 4, 4},
               abort_case{"first gather", operation::allreduce, message_phase::gather, 0, 0},
               abort_case{"later gather", operation::allreduce, message_phase::gather, 4, 4},
               abort_case{"rows", operation::allgather, message_phase::gather, 2, 2},
               abort_case{"first exchanged rows", operation::alltoall, message_phase::gather, 0, 0},
               abort_case{"later exchanged rows", operation::alltoall, message_phase::gather, 2, 2},
               abort_case{"first segments", operation::reducescatter, message_phase::scatter, 0, 0},
               abort_case{"later segments", operation::reducescatter, message_phase::scatter, 2, 2},
               abort_case{"first reduction", operation::reducescatter, message_phase::gather, 0, 0},
               abort_case{"later reduction", operation::reducescatter, message_phase::gather, 2, 2},
               abort_case{"tree", operation::broadcast, message_phase::tree, 2, 1},
               abort_case{"barrier", operation::barrier, message_phase::barrier, 1, 1, true});
  CAPTURE(settings.name);
  constexpr std::int32_t frozen = 0, aborted = 2;
  job members(between, 3, [settings](member& self) {
    // One member stops in that phase and continues only after the aborted member has returned. Messages that
    // it has sent before or sends then must not be written to any buffer.
    std::thread raiser;
    self.probe = [&](message_phase phase, std::size_t piece) {
      if (phase != settings.phase)
        return;
      std::string go;
      if (self.rank == frozen && piece == settings.piece) {
        put(self.control, "frozen");
        take(self.control, go);
      } else if (self.rank == aborted && piece == settings.aborts_at) {
        put(self.control, "there");
        raiser = std::thread([&self] {
          std::string word;
          take(self.control, word);
          self.abort.raise();
        });
      }
    };
    // A reducescatter cuts each member's segment into pieces, so three times as many elements also give seven
    // pieces.
    const std::size_t count = settings.phase == message_phase::exchange ? 100
                              : settings.op == operation::reducescatter ? 3 * large_count
                                                                        : large_count;
    bytes buffer = contents(dtype::float32, count, self.rank, 0), wide;
    const outcome end = run_one(self, settings.op, buffer, wide, self.deadline());
    const bytes before = buffer, wide_before = wide;
    if (raiser.joinable())
      raiser.join();
    // A process that ends resets its connections: none does before the others have seen what the abort does.
    put(self.control, "returned");
    std::string go;
    take(self.control, go);
    if (buffer != before || wide != wide_before)
      return std::string{"touched after the return"};
    return std::string{to_string(end.error.kind)} + ": " + end.error.text;
  });
  const std::string disconnected{to_string(error_kind::disconnected)};
  CHECK(members.hear(frozen) == "frozen");
  CHECK(members.hear(aborted) == "there");
  members.tell(aborted, "abort");
  CHECK(members.hear(aborted) == "returned");
  members.tell(frozen, "go");
  for (const std::int32_t other : {frozen, 1})
    CHECK(members.hear(other) == "returned");
  for (const std::int32_t other : {frozen, 1}) {
    members.tell(other, "look");
    const std::string end = members.hear(other);
    if (!settings.others_may_finish ||
        end != "none: ") // a member that needs no more of the aborted member may have succeeded
      CHECK_THAT(end, Catch::StartsWith(disconnected) && Catch::Contains("rank 12"));
  }
  members.tell(aborted, "look");
  CHECK_THAT(members.hear(aborted), Catch::StartsWith(disconnected + ": the operation was aborted"));
}

TEST_CASE("between hosts: an expired deadline ends the wait, and the error names its setting") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const auto op = GENERATE(operation::allreduce, operation::alltoall, operation::reducescatter);
  job members(between, 2, [op](member& self) {
    bytes buffer = contents(dtype::float32, large_count, self.rank, 0), wide;
    deadline_and_abort deadline = self.deadline();
    std::string go;
    if (self.rank == 1) {
      take(self.control, go);
    } else {
      deadline.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{30};
      deadline.deadline_setting = "operation timeout (TEST_TIMEOUT) = 0.03 s";
    }
    const error problem = run_one(self, op, buffer, wide, deadline).error;
    return std::string{to_string(problem.kind)} + ": " + problem.text;
  });
  const std::string end = members.hear(0);
  CHECK_THAT(end, Catch::StartsWith(std::string{to_string(error_kind::timed_out)}));
  CHECK_THAT(end, Catch::Contains("operation timeout (TEST_TIMEOUT) = 0.03 s"));
  members.tell(1, "go");
  CHECK_THAT(members.hear(1), Catch::Contains("rank 10 is lost"));
}

TEST_CASE(
    "between hosts: each wait of an operation has the whole timeout, however long the operation has taken") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const auto op = GENERATE(operation::allreduce, operation::alltoall, operation::broadcast);
  const auto phase = op == operation::allreduce  ? message_phase::scatter
                     : op == operation::alltoall ? message_phase::gather
                                                 : message_phase::tree;
  job members(between, 2, [op, phase](member& self) {
    bytes buffer = contents(dtype::float32, 3 * large_count, self.rank, 0), wide;
    deadline_and_abort deadline = self.deadline();
    self.probe = [&](message_phase at, std::size_t piece) {
      if (at == phase && piece == 3)
        deadline.deadline = {}; // it passes
    };
    const error problem = run_one(self, op, buffer, wide, deadline).error;
    return std::string{to_string(problem.kind)} + ": " + problem.text;
  });
  for (const std::int32_t rank : {0, 1})
    CHECK(members.hear(rank) == std::string{to_string(error_kind::none)} + ": ");
}

TEST_CASE("between hosts: a wait in which messages arrive may last longer than the timeout") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  // On a busy machine the time between two messages may exceed a short timeout. It is longer in the next job.
  for (auto timeout = std::chrono::milliseconds{100};; timeout *= 2) {
    job members(between, 4, [timeout](member& self) {
      std::string go;
      self.probe = [&](message_phase phase, std::size_t) {
        if (phase != message_phase::exchange)
          return;
        if (self.rank == 0)
          put(self.control, "begun");
        else
          take(self.control, go);
      };
      bytes buffer = contents(dtype::float32, 100, self.rank, 0);
      const auto patience = self.rank == 0 ? timeout : std::chrono::seconds{60};
      return self.path->run(large_allreduce(buffer), self.deadline(patience)).error.text;
    });
    REQUIRE(members.hear(0) == "begun");
    // The last message arrives when twice the timeout has passed.
    auto next = std::chrono::steady_clock::now();
    for (const std::int32_t rank : {1, 2, 3}) {
      next += timeout * 2 / 3;
      while (std::chrono::steady_clock::now() <= next)
        std::this_thread::yield();
      members.tell(rank, "go");
    }
    std::string ends;
    for (const std::int32_t rank : {0, 1, 2, 3})
      ends += members.hear(rank);
    if (ends.empty() || timeout > std::chrono::seconds{10}) {
      CHECK(ends == "");
      break;
    }
  }
}

TEST_CASE("between hosts: an operation in which a member stops fails after the timeout") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::alltoall);
  job members(between, 2, [op](member& self) {
    bytes buffer = contents(dtype::float32, 3 * large_count, self.rank, 0), wide;
    std::string go;
    self.probe = [&](message_phase, std::size_t piece) {
      if (self.rank == 1 && piece == 3 && go.empty())
        take(self.control, go);
    };
    const auto patience = self.rank == 1 ? std::chrono::seconds{60} : std::chrono::milliseconds{200};
    const error problem = run_one(self, op, buffer, wide, self.deadline(patience)).error;
    return std::string{to_string(problem.kind)} + ": " + problem.text;
  });
  CHECK_THAT(members.hear(0), Catch::StartsWith(std::string{to_string(error_kind::timed_out)}));
  members.tell(1, "go");
  CHECK_THAT(members.hear(1), Catch::Contains("rank 10 is lost"));
}

TEST_CASE("between hosts: a member that leaves in order does not disturb members that need no more of its "
          "messages") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 3, [](member& self) {
    std::string go;
    if (self.rank == 2)
      self.probe = [&](message_phase, std::size_t) { take(self.control, go); };
    bytes buffer = contents(dtype::uint8, 1000, self.rank, 0);
    const outcome end = self.path->run(broadcast_of(buffer, buffer, 0), self.deadline());
    if (end.error)
      return end.error.text;
    return differs("broadcast", buffer, contents(dtype::uint8, 1000, 0, 0));
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
  members.tell(2, "go");
  CHECK(members.hear(2) == "");
}

TEST_CASE("between hosts: waiting for a member that has left in order fails and names it") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 2, [](member& self) { return self.rank == 0 ? std::string{} : barrier(self, 0); });
  CHECK(members.hear(0) == "");
  CHECK_THAT(members.hear(1), Catch::StartsWith("rank 10 is lost"));
}

TEST_CASE("between hosts: connecting to a dead member fails and names it") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 3, [](member& self) {
    if (std::string problem = barrier(self, 0); !problem.empty())
      return problem;
    // A second path between the same members; one member dies after it has sent its address.
    member second{self.between, self.rank, self.size, self.control, {}, {}, {}};
    auto opened = open_between(self.between, {}, {});
    if (!opened)
      return opened.error().text;
    put(self.control, (*opened)->address());
    std::vector<std::string> all(3);
    for (std::string& address : all)
      take(self.control, address);
    if (self.rank == 1)
      ::kill(::getpid(), SIGKILL);
    return (*opened)->connect(all, self.rank, second.deadline()).text;
  });
  std::vector<std::string> addresses;
  for (std::int32_t rank = 0; rank < 3; ++rank)
    addresses.push_back(members.hear(rank));
  for (const std::int32_t rank : {1, 0, 2}) {
    for (const std::string& address : addresses)
      members.tell(rank, address);
    if (rank == 1)
      CHECK(members.hear(1) == "(dead)");
  }
  for (const std::int32_t rank : {0, 2}) {
    const std::string end = members.hear(rank);
    CHECK_THAT(end, Catch::Contains("rank 1") && Catch::Contains("lost to the " + between + " path"));
  }
}
