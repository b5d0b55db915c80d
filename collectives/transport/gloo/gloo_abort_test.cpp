// Members of the gloo path that die, stop, abort or leave: the tests check the errors of the other members,
// and that no buffer is written after the return.
#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/gloo/gloo_path.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

using probe = std::function<void(message_phase, std::size_t)>;

constexpr std::size_t large_count = 800'000; // seven pieces

/// A gloo path of this member, which is connected to the paths of the other members.
struct gloo_member {
  gloo_member(forked_member& member, probe watch) : self(member) {
    gloo_options options;
    options.rank = self.set.rank;
    options.global_ranks.clear();
    for (std::size_t rank = 0; rank < self.size(); ++rank)
      options.global_ranks.push_back(static_cast<std::int32_t>(10 + rank));
    options.probe = std::move(watch);
    auto opened = open_gloo_path(options);
    if (!opened) {
      problem = opened.error();
      return;
    }
    path = std::move(*opened);
    self.say(path->address());
    for (std::size_t rank = 0; rank < self.size(); ++rank)
      addresses.push_back(self.hear());
  }
  error connect(const deadline_and_abort& deadline) {
    return problem ? problem : path->connect(addresses, self.set.rank, deadline);
  }
  error connect() { return connect(self.deadline()); }

  error run(const work& bundle, const deadline_and_abort& deadline) {
    return path->run(bundle, deadline).error;
  }
  error run(const work& bundle) { return run(bundle, self.deadline()); }

  forked_member& self;
  std::unique_ptr<p2p_path> path;
  std::vector<std::string> addresses;
  error problem;
};

/// A job whose members open gloo paths.
class gloo_job : public forked_members {
public:
  gloo_job(std::size_t size, const body& act) : forked_members(std::vector<std::string>(size, "a"), {}, act) {
    std::vector<std::string> addresses;
    for (std::size_t rank = 0; rank < size; ++rank)
      addresses.push_back(hear(rank));
    for (std::size_t rank = 0; rank < size; ++rank)
      for (const auto& address : addresses)
        tell(rank, address);
  }
};

bytes contents(std::size_t count, std::size_t rank) {
  std::mt19937 random(static_cast<unsigned>(rank));
  return random_elements(dtype::float32, count, random);
}

/// One operation on `buffer`; `wide` takes outputs that do not fit there.
work large(operation op, std::size_t members, bytes& buffer, bytes& wide) {
  work bundle;
  bundle.operation = op;
  bundle.root = op == operation::broadcast ? 0 : -1;
  if (op == operation::barrier)
    return bundle;
  bundle.parts.push_back({buffer.data(), buffer.data(), buffer.size(), {}});
  if (op == operation::allgather) {
    wide.resize(buffer.size() * members);
    bundle.parts[0].output = wide.data();
    bundle.gathered.assign(members, buffer.size());
  }
  if (op == operation::alltoall || op == operation::reducescatter) {
    bundle.longest = buffer.size() / 4 / members * 4;
    wide.resize(bundle.longest * members);
    bundle.parts[0].input_bytes = wide.size();
    bundle.parts[0].output = wide.data();
    bundle.sent.assign(members, bundle.longest);
    bundle.received = bundle.sent;
  }
  return bundle;
}

std::string described(const error& problem) {
  return std::string(to_string(problem.kind)) + ": " + problem.text;
}

const std::string disconnected(to_string(error_kind::disconnected));

} // namespace

TEST_CASE("gloo: every other member's error names a member killed in the middle of an operation") {
  const message_phase when = GENERATE(message_phase::scatter, message_phase::gather);
  gloo_job members(3, [when](forked_member& self) {
    gloo_member own_member(self, [&](message_phase phase, std::size_t piece) {
      if (self.rank() == 1 && phase == when && piece == 3)
        ::kill(::getpid(), SIGKILL);
    });
    if (const error problem = own_member.connect())
      return problem.text;
    bytes buffer = contents(large_count, self.rank()), wide;
    const work bundle = large(operation::allreduce, self.size(), buffer, wide);
    const error end = own_member.run(bundle), again = own_member.run(bundle);
    return std::string(to_string(again.kind)) + " after " + described(end);
  });
  for (const std::size_t survivor : {0, 2})
    CHECK_THAT(members.hear(survivor),
               Catch::StartsWith(disconnected + " after " + disconnected) && Catch::Contains("rank 11"));
  CHECK(members.hear(1) == "(dead)");
}

TEST_CASE("gloo: the next operation's error names a member killed between two operations") {
  gloo_job members(3, [](forked_member& self) {
    gloo_member own_member(self, {});
    bytes none;
    const work barrier = large(operation::barrier, 3, none, none);
    error problem = own_member.connect();
    if (!problem)
      problem = own_member.run(barrier);
    if (problem)
      return problem.text;
    self.say("met");
    self.hear();
    if (self.rank() == 0)
      ::kill(::getpid(), SIGKILL);
    return described(own_member.run(barrier));
  });
  for (const std::size_t index : {0, 1, 2})
    CHECK(members.hear(index) == "met");
  members.tell(0, "die");
  CHECK(members.hear(0) == "(dead)");
  for (const std::size_t survivor : {1, 2}) {
    members.tell(survivor, "go");
    CHECK_THAT(members.hear(survivor), Catch::StartsWith(disconnected) && Catch::Contains("rank 10"));
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

} // namespace

TEST_CASE("gloo: an abort in any phase leaves the buffers unchanged after the return") {
  const abort_case settings =
      GENERATE(abort_case{"exchange", operation::allreduce, message_phase::exchange, 0, 0, true},
               abort_case{"scatter", operation::allreduce, message_phase::scatter, 4, 4},
               abort_case{"first gather", operation::allreduce, message_phase::gather, 0, 0},
               abort_case{"later gather", operation::allreduce, message_phase::gather, 4, 4},
               abort_case{"rows", operation::allgather, message_phase::gather, 2, 2},
               abort_case{"exchanged rows", operation::alltoall, message_phase::gather, 2, 2},
               abort_case{"segments", operation::reducescatter, message_phase::scatter, 2, 2},
               abort_case{"tree", operation::broadcast, message_phase::tree, 2, 1},
               abort_case{"barrier", operation::barrier, message_phase::barrier, 1, 1, true});
  CAPTURE(settings.name);
  constexpr std::size_t frozen = 0, aborted = 2;
  gloo_job members(3, [settings](forked_member& self) {
    // One member stops in that phase and continues only after the aborted member has returned. Messages that
    // it has sent before or sends then must not be written to any buffer.
    std::thread raiser;
    gloo_member own_member(self, [&](message_phase phase, std::size_t piece) {
      if (phase != settings.phase)
        return;
      if (self.rank() == frozen && piece == settings.piece) {
        self.say("frozen");
        self.hear();
      } else if (self.rank() == aborted && piece == settings.aborts_at && !raiser.joinable()) {
        self.say("there");
        raiser = std::thread([&self] {
          self.hear();
          self.abort.raise();
        });
      }
    });
    if (const error problem = own_member.connect())
      return problem.text;
    const std::size_t count = settings.phase == message_phase::exchange ? 100
                              : settings.op == operation::reducescatter ? 3 * large_count
                                                                        : large_count;
    bytes buffer = contents(count, self.rank()), wide;
    const error end = own_member.run(large(settings.op, self.size(), buffer, wide));
    const bytes before = buffer, wide_before = wide;
    if (raiser.joinable())
      raiser.join();
    if (self.rank() == aborted) {
      self.say("returned");
      self.hear();
    }
    return buffer == before && wide == wide_before ? described(end) : "touched after the return";
  });
  CHECK(members.hear(frozen) == "frozen");
  CHECK(members.hear(aborted) == "there");
  members.tell(aborted, "abort");
  CHECK(members.hear(aborted) == "returned");
  members.tell(frozen, "go");
  for (const std::size_t other : {frozen, std::size_t{1}}) {
    const std::string end = members.hear(other);
    if (!settings.others_may_finish ||
        end != "none: ") // a member that needs no more of the aborted member may have succeeded
      CHECK_THAT(end, Catch::StartsWith(disconnected) && Catch::Contains("rank 12"));
  }
  members.tell(aborted, "look");
  CHECK_THAT(members.hear(aborted), Catch::StartsWith(disconnected + ": the operation was aborted"));
}

TEST_CASE("gloo: an expired deadline ends the wait, and the error names its setting and the awaited member") {
  const auto op = GENERATE(operation::allreduce, operation::alltoall, operation::reducescatter);
  gloo_job members(2, [op](forked_member& self) {
    gloo_member own_member(self, {});
    if (const error problem = own_member.connect())
      return problem.text;
    bytes buffer = contents(large_count, self.rank()), wide;
    deadline_and_abort deadline = self.deadline();
    if (self.rank() == 1) {
      self.hear();
    } else {
      deadline.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{30};
      deadline.deadline_setting = "operation timeout (TEST_TIMEOUT) = 0.03 s";
    }
    return described(own_member.run(large(op, self.size(), buffer, wide), deadline));
  });
  const std::string end = members.hear(0);
  CHECK_THAT(end, Catch::StartsWith(std::string(to_string(error_kind::timed_out))));
  CHECK_THAT(end, Catch::Contains("rank 11") && Catch::Contains("operation timeout (TEST_TIMEOUT) = 0.03 s"));
  members.tell(1, "go");
  CHECK_THAT(members.hear(1), Catch::StartsWith(disconnected) && Catch::Contains("rank 10 is lost"));
}

TEST_CASE("gloo: waiting for a member that has left the job in order fails and names it") {
  gloo_job members(2, [](forked_member& self) {
    gloo_member own_member(self, {});
    if (const error problem = own_member.connect())
      return problem.text;
    bytes none;
    return self.rank() == 0 ? std::string{} : own_member.run(large(operation::barrier, 2, none, none)).text;
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "rank 10 is lost to the gloo path: it has left the job");
}

TEST_CASE("gloo: connecting to a dead member ends by an abort, or by the deadline that the error names") {
  const bool aborts = GENERATE(true, false);
  gloo_job members(3, [aborts](forked_member& self) {
    gloo_member own_member(self, {});
    if (self.rank() == 1)
      ::kill(::getpid(), SIGKILL);
    self.hear();
    deadline_and_abort deadline = self.deadline();
    if (!aborts)
      deadline.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    std::thread raiser([&] {
      if (aborts)
        self.abort.raise();
    });
    const error end = own_member.connect(deadline);
    raiser.join();
    return described(end);
  });
  CHECK(members.hear(1) == "(dead)");
  for (const std::size_t survivor : {0, 2})
    members.tell(survivor, "go");
  for (const std::size_t survivor : {0, 2}) {
    const std::string end = members.hear(survivor);
    if (aborts)
      CHECK_THAT(end, Catch::StartsWith(disconnected));
    else
      CHECK_THAT(end, Catch::Contains("TEST_PATIENCE") || Catch::Contains("is lost to the gloo path"));
  }
}
