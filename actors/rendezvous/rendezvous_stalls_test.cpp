// The one report of the stalls of all members: in the log and to the members, on virtual time.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using tensors = std::vector<stalled_tensor>;

/// A rendezvous without sockets, and a running job of two members, whose links the test plays.
class running_job {
public:
  running_job() {
    rendezvous_options options;
    options.members.size = 2;
    options.log = &log_;
    rendezvous_ = world_.system().spawn(rendezvous, options, membership{options.members, 1});
    for (std::int32_t rank : {0, 1})
      arrive(rank);
    run(100ms);
    REQUIRE(generation_ > 0);
  }
  ~running_job() {
    caf::anon_send_exit(rendezvous_, caf::exit_reason::kill);
    if (explainer_)
      caf::anon_send_exit(explainer_, caf::exit_reason::kill);
    rendezvous_ = nullptr;
    explainer_ = nullptr;
    world_.run_until_idle();
  }

  void run(std::chrono::nanoseconds duration) { REQUIRE(world_.run_for(duration)); }

  void notice(std::int32_t rank, const tensors& stalled, std::uint64_t older = 0) {
    const stall_notice notice{stall_source::fast_path, stalled, static_cast<std::uint32_t>(stalled.size())};
    caf::anon_send(rendezvous_,
                   link_received{link_of(rank), encode(address{generation_ - older, 0, rank}, notice)});
    run(1ms);
  }

  void cut(std::int32_t rank) {
    caf::anon_send(rendezvous_, link_closed{link_of(rank), "the test cut it"});
    run(1s);
  }

  /// Answers each question with this text after the delay.
  void explain_by(const std::string& lines, std::chrono::milliseconds delay) {
    explainer_ = world_.system().spawn([this, lines, delay](caf::event_based_actor* self) -> caf::behavior {
      return {[this, self, lines, delay](const stall_found& found) {
        questions.push_back(found);
        self->delayed_send(rendezvous_, delay, stall_explained{found.number, lines});
      }};
    });
    caf::anon_send(rendezvous_, watch_stalls{caf::actor_cast<stall_explainer_actor>(explainer_)});
  }

  std::vector<std::string> lines;                           ///< of the log
  std::vector<std::pair<std::int32_t, stall_report>> heard; ///< with the rank
  std::vector<stall_found> questions;

private:
  static link_id link_of(std::int32_t rank) { return static_cast<link_id>(10 + rank); }

  void arrive(std::int32_t rank) {
    auto handle = world_.system().spawn([this, rank]() -> caf::behavior {
      return {[this, rank](const envelope& message) { hear(rank, message); }, [](close_atom) {}};
    });
    caf::anon_send(rendezvous_, link_opened{link_of(rank), handle, "a test", true});
    hello said;
    said.slot = rank;
    said.size = 2;
    said.address = "127.0.0.1:" + std::to_string(5000 + rank);
    said.process = rank + 1;
    caf::anon_send(rendezvous_, link_received{link_of(rank), encode(address{}, said)});
  }

  void hear(std::int32_t rank, const envelope& message) {
    if (message.kind() == wire::Envelope::Body::WELCOME)
      generation_ = message.generation();
    if (message.kind() != wire::Envelope::Body::STALL_REPORT)
      return;
    auto report = decode_stall_report(message);
    REQUIRE(report);
    heard.emplace_back(rank, *report);
  }

  farandole::testing::simulation world_{3};
  logger log_{{.level = log_level::warning},
              [this](log_level, std::string_view line) { lines.emplace_back(line); }};
  rendezvous_actor rendezvous_;
  caf::actor explainer_;
  std::uint64_t generation_ = 0;
};

const tensors a{{"a", 61s, {1}}};
const tensors b{{"b", 40s, {0}}};

} // namespace

TEST_CASE("the notices of two members give one report, and one when the stall is over", "[rendezvous]") {
  running_job job;
  job.notice(1, b);
  job.notice(0, a);
  job.notice(1, tensors{{"b", 61s, {0}}});
  REQUIRE(job.lines.size() == 1);
  CHECK_THAT(job.lines[0],
             Catch::Contains("W rendezvous_stalls.cpp") &&
                 Catch::Contains("stall warning time (HOROVOD_STALL_CHECK_TIME_SECONDS) = 60 s: a") &&
                 Catch::EndsWith("rank 0 waits for a, rank 1 for b: they call in different orders"));
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].first != job.heard[1].first);
  CHECK(job.heard[0].second == job.heard[1].second);
  CHECK_FALSE(job.heard[0].second.over);
  job.run(59s);
  CHECK(job.lines.size() == 1);
  job.run(2s);
  CHECK(job.lines.size() == 2);
  job.notice(0, {});
  job.notice(1, {});
  REQUIRE(job.lines.size() == 3);
  CHECK_THAT(job.lines[2], Catch::Contains("The stall is over: it lasted 122.0 s"));
  REQUIRE(job.heard.size() == 6);
  CHECK(job.heard[5].second.over);
  job.run(1h);
  CHECK(job.lines.size() == 3);
}

TEST_CASE("an explanation follows the report, unless it comes too late", "[rendezvous]") {
  running_job job;
  job.explain_by("rank 1 reads a file", 500ms);
  job.notice(0, a);
  CHECK(job.lines.empty());
  job.run(500ms);
  REQUIRE(job.lines.size() == 1);
  CHECK_THAT(job.lines[0], Catch::EndsWith("1: [a]\nrank 1 reads a file"));
  REQUIRE(job.questions.size() == 1);
  CHECK(job.questions[0].missing == std::map<std::int32_t, std::int32_t>{{1, 1}});
  job.notice(0, {});
  CHECK(job.lines.size() == 2); // the end needs no explanation

  job.explain_by("rank 1 reads a file", 5s);
  job.notice(0, a);
  job.run(explanation_time);
  REQUIRE(job.lines.size() == 3);
  CHECK_THAT(job.lines[2], Catch::EndsWith("1: [a]"));
  job.run(10s);
  CHECK(job.lines.size() == 3);
}

TEST_CASE("a report that waits for its explanation is printed before the next one", "[rendezvous]") {
  running_job job;
  job.explain_by("rank 1 reads a file", 700ms);
  job.notice(0, a);
  job.notice(0, {});
  REQUIRE(job.lines.size() == 2);
  CHECK_THAT(job.lines[0], Catch::EndsWith("1: [a]"));
  CHECK_THAT(job.lines[1], Catch::Contains("The stall is over"));
  job.run(10s);
  CHECK(job.lines.size() == 2);
}

TEST_CASE("stalls of another generation, and those of members that are gone, are not reported",
          "[rendezvous]") {
  running_job job;
  job.notice(0, a, 1);
  CHECK(job.lines.empty());
  job.notice(1, b);
  job.cut(1); // ends the generation
  job.notice(0, a);
  job.run(10min);
  CHECK(job.heard.empty());
}
