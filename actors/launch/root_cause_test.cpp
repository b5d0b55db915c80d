#include "actors/launch/root_cause.hpp"

#include <catch2/catch.hpp>

#include <signal.h>

using namespace farandole;

namespace {

constexpr process_end well{0, 0};
constexpr process_end failed{1, 0};
constexpr process_end killed{128 + SIGKILL, SIGKILL};
const departure raised{departure_kind::uncaught_exception, "KeyError: 'labels'", 4};
const departure returned{departure_kind::script_ended, "", 4};

/// Rank 1 left first, in order. `interrupted`: ranks 0 and 2 had operations pending.
root_cause left_by_1(const departure& manner, bool interrupted) {
  root_cause judge;
  judge.learn({1, 1, false, manner, false});
  for (const std::int32_t slot : {0, 2})
    judge.learn({slot, 1, false, manner, interrupted});
  return judge;
}

} // namespace

TEST_CASE("a rank that raised is the cause, even if others ended before it", "[cause]") {
  auto judge = left_by_1(raised, true);
  judge.ended(2, failed, false);
  CHECK(judge.culprit_of(2) == 1);
  judge.ended(0, failed, false);
  judge.ended(1, {7, 0}, false);
  const auto cause = judge.judge();
  REQUIRE(cause);
  CHECK(cause->slot == 1);
  CHECK(cause->code == 7);
  CHECK(cause->process_code == 7);
  CHECK(cause->text == "ended with an uncaught exception (KeyError: 'labels')");
}

TEST_CASE("a rank that raised is the cause, even if the launcher's signal ended it", "[cause]") {
  auto judge = left_by_1(raised, false);
  judge.ended(2, failed, false);
  judge.ended(1, {128 + SIGTERM, SIGTERM}, true);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->code == 1);
  CHECK(judge.judge()->process_code == 1);
}

TEST_CASE("a rank that ended well while others waited for it is the cause; a waiting rank gives the code",
          "[cause]") {
  auto judge = left_by_1(returned, true);
  judge.ended(1, well, false);
  judge.ended(0, {9, 0}, false);
  judge.ended(2, failed, false);
  const auto cause = judge.judge();
  REQUIRE(cause);
  CHECK(cause->slot == 1);
  CHECK(cause->code == 9);
  CHECK(cause->process_code == 0);
  CHECK(cause->text == "ended its script while others still had operations to complete");
}

TEST_CASE("a rank that fails on its own after others have ended well is the cause", "[cause]") {
  auto judge = left_by_1(returned, false);
  judge.ended(1, well, false);
  judge.ended(0, {5, 0}, false);
  CHECK(judge.culprit_of(0) == 0);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 0);
  CHECK(judge.judge()->code == 5);
  CHECK(judge.judge()->text == "exited with code 5");
}

TEST_CASE("a rank that exited with a non-zero status is the cause, even if it left in order", "[cause]") {
  auto judge = left_by_1(returned, false);
  judge.ended(0, failed, false);
  judge.ended(1, {5, 0}, false);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->text == "exited with code 5");
}

TEST_CASE("a rank that was killed is the cause of the failures of the ranks that lost it", "[cause]") {
  root_cause judge;
  for (const std::int32_t slot : {0, 2})
    judge.learn({slot, 1, true, std::nullopt, true});
  judge.ended(0, failed, false);
  judge.ended(1, killed, false);
  judge.ended(2, failed, false);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->code == 137);
  CHECK_THAT(judge.judge()->text, Catch::Contains("killed by signal 9"));
}

TEST_CASE("the earliest of several unconnected failures is the cause", "[cause]") {
  root_cause judge;
  CHECK_FALSE(judge.judge());
  judge.ended(0, well, false);
  CHECK_FALSE(judge.judge());
  judge.could_not_start(2, "could not be started: no such file", 127);
  judge.ended(1, killed, false);
  judge.ended(3, {128 + SIGTERM, SIGTERM}, true);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 2);
  CHECK(judge.judge()->code == 127);
  CHECK(judge.failed() == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("an exit after the launcher's signal is no failure", "[cause]") {
  root_cause judge;
  judge.ended(0, {128 + SIGTERM, SIGTERM}, true);
  CHECK_FALSE(judge.judge());
}

TEST_CASE("failures before a new generation do not count", "[cause]") {
  root_cause judge;
  judge.learn({0, 1, true, std::nullopt, true});
  judge.ended(1, killed, false);
  judge.begin_generation({0, 1, 2});
  CHECK_FALSE(judge.judge());
  judge.ended(0, failed, false);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 0);
}

namespace {

const std::deque<std::string> consequence_of_1{"a line of its own",
                                               "farandole: this worker ends because another one did: x: rank "
                                               "1 on alpha ended its script after 2 operations"};

} // namespace

TEST_CASE("a rank that ended well is the cause if the last lines of other ranks blame it", "[cause]") {
  auto judge = left_by_1(returned, false);
  judge.ended(1, well, false);
  judge.ended(0, {9, 0}, false);
  judge.wrote(1, {"done"});
  judge.wrote(0, consequence_of_1);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->code == 9);
  CHECK(judge.judge()->text == "ended its script while others still had operations to complete");
}

TEST_CASE("without reports of the rendezvous, the last lines of a process name the cause", "[cause]") {
  root_cause judge;
  judge.ended(0, failed, false);
  judge.ended(1, {5, 0}, false);
  judge.wrote(0, consequence_of_1);
  judge.wrote(1, {});
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->code == 5);
  CHECK(judge.judge()->text == "exited with code 5");
}

TEST_CASE("a blamed rank is looked up among the slots of its generation", "[cause]") {
  root_cause judge;
  judge.begin_generation({4, 7});
  judge.ended(4, failed, false);
  judge.ended(7, {5, 0}, false);
  judge.wrote(4, consequence_of_1);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 7);
  CHECK(judge.judge()->code == 5);
}

TEST_CASE("a blamed rank is the cause, even if the launcher's signal ended it", "[cause]") {
  root_cause judge;
  judge.ended(0, failed, false);
  judge.ended(1, {128 + SIGTERM, SIGTERM}, true);
  judge.wrote(0, consequence_of_1);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 1);
  CHECK(judge.judge()->code == 1);
  CHECK(judge.judge()->text == "left the job, and others failed because of it");
}

TEST_CASE("a blamed rank that was never started here is not the cause", "[cause]") {
  root_cause judge;
  judge.ended(0, failed, false);
  judge.wrote(0, consequence_of_1);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 0);
}

TEST_CASE("a worker that failed before it became a member is the cause only if no member is", "[cause]") {
  root_cause judge;
  judge.begin_generation({0, 1});
  judge.ended(2, {5, 0}, false);
  REQUIRE(judge.judge());
  CHECK(judge.judge()->slot == 2);
  judge.ended(1, killed, false);
  judge.ended(0, failed, false);
  CHECK(judge.judge()->slot == 1);
}
