// Members that have the job's secret and send what no correct member sends. In every case the rendezvous goes
// on: it refuses the message, or ends the generation and names the sender.
#include <catch2/catch.hpp>

#include <functional>

#include "elastic/membership_testing.hpp"

using namespace farandole;

namespace {

/// Three members, in generation 1; routes are 100 + slot.
membership running() {
  return elastic_running(3, 3);
}
constexpr link_id hostile = 101;  ///< the link of slot 1, which is rank 1
constexpr link_id stranger = 200; ///< a link with the secret, and without a slot

hello hello_of(std::int32_t slot) {
  return from_slot(slot, 1);
}
returning returning_of(std::int32_t slot, std::int32_t rank, std::uint64_t generation = 1) {
  returning value;
  value.epoch = 1;
  value.slot = slot;
  value.rank = rank;
  value.generation = generation;
  value.host = "a";
  return value;
}

enum class outcome : std::uint8_t { nothing, refused, ended };

struct attack {
  const char* name;
  outcome expected;
  std::function<membership_decision(membership&)> act;
  const char* reason;
};

const std::vector<attack> attacks{
    {"joins a second time by its connection", outcome::refused,
     [](membership& job) { return job.join(hostile, hello_of(1)); }, "has joined already, as slot 1"},
    {"joins for another member by its connection", outcome::refused,
     [](membership& job) { return job.join(hostile, hello_of(2)); }, "has joined already, as slot 1"},
    {"takes a slot that is taken", outcome::refused,
     [](membership& job) { return job.join(stranger, hello_of(2)); }, "slot 2 is taken"},
    {"takes a slot that was not started", outcome::refused,
     [](membership& job) { return job.join(stranger, hello_of(3)); }, "slot 3 was not started"},
    {"takes slot -1", outcome::refused, [](membership& job) { return job.join(stranger, hello_of(-1)); },
     "slot -1 was not started"},
    {"takes the greatest slot", outcome::refused,
     [](membership& job) { return job.join(stranger, hello_of(INT32_MAX)); }, "was not started"},
    {"comes back as another member", outcome::refused,
     [](membership& job) { return job.come_back(hostile, returning_of(2, 2)); },
     "has joined already, as slot 1"},
    {"comes back with another rank", outcome::refused,
     [](membership& job) { return job.come_back(stranger, returning_of(2, 0)); }, "slot 2 is rank 2"},
    {"comes back as slot -1", outcome::refused,
     [](membership& job) { return job.come_back(stranger, returning_of(-1, 0)); }, "not known"},
    {"comes back from a generation to come", outcome::refused,
     [](membership& job) { return job.come_back(stranger, returning_of(2, 2, UINT64_MAX)); },
     "knows generations up to 1"},
    {"leaves another generation than its own", outcome::ended,
     [](membership& job) { return job.leave(hostile, 7); }, "left generation 7, but is in generation 1"},
    {"reports the loss of a rank beyond the job", outcome::ended,
     [](membership& job) {
       return job.report(hostile, {1, 3, "x"});
     },
     "reported the loss of rank 3"},
    {"reports the loss of rank -1", outcome::ended,
     [](membership& job) {
       return job.report(hostile, {1, -1, "x"});
     },
     "reported the loss of rank -1"},
    {"reports the loss of the greatest rank", outcome::ended,
     [](membership& job) {
       return job.report(hostile, {1, INT32_MAX, "x"});
     },
     "reported the loss of rank 2147483647"},
    {"reports a loss in a generation that is over", outcome::nothing,
     [](membership& job) {
       return job.report(hostile, {0, 2, "x"});
     },
     ""},
    {"reports a loss in a generation to come", outcome::nothing,
     [](membership& job) {
       return job.report(hostile, {UINT64_MAX, 2, "x"});
     },
     ""},
    {"reports a loss without being a member", outcome::nothing,
     [](membership& job) {
       return job.report(stranger, {1, 2, "x"});
     },
     ""},
    {"leaves without being a member", outcome::nothing,
     [](membership& job) { return job.leave(stranger, 1); }, ""},
};

} // namespace

TEST_CASE("membership: a hostile member is refused, or ends its generation and is named") {
  for (const attack& attack : attacks) {
    DYNAMIC_SECTION(attack.name) {
      auto job = running();
      REQUIRE(job.running());
      const auto decided = attack.act(job);
      CHECK(decided.refusals.size() == (attack.expected == outcome::refused ? 1 : 0));
      CHECK(decided.loss_notices.size() == (attack.expected == outcome::ended ? 3 : 0));
      for (const auto& refusal : decided.refusals)
        CHECK_THAT(refusal.reason.reason, Catch::Contains(attack.reason));
      for (const auto& notice : decided.loss_notices) {
        CHECK(notice.lost.rank == 1);
        CHECK_THAT(notice.lost.reason, Catch::Contains(attack.reason));
      }
      CHECK(job.running() == (attack.expected != outcome::ended));
      // The job goes on as before: a member that is lost ends the generation.
      if (job.running()) {
        const auto lost = job.disconnect(hostile, "closed its connection");
        REQUIRE(lost.loss_notices.size() >= 2);
        CHECK(lost.loss_notices.front().lost.rank == 1);
      }
    }
  }
}

TEST_CASE("membership: a link cannot take two slots of a job that is forming") {
  membership job{{.size = 2, .elastic = true, .minimum = 2, .limit = 2}, 1};
  job.expect(0);
  job.expect(1);
  job.join(hostile, hello_of(1));
  CHECK(job.join(hostile, hello_of(0)).refusals.size() == 1);
  CHECK_FALSE(job.running());
  CHECK(slots_of(job.join(100, hello_of(0))) == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("membership: invalid process sets in a hello are not kept") {
  const std::vector<std::vector<std::int32_t>> slot_lists{
      {}, {-1}, {INT32_MAX}, {INT32_MIN, 5}, {1, 1, 1}, {2, 1, 0}, std::vector<std::int32_t>(100'000, 7)};
  for (const auto& slots : slot_lists)
    for (const std::uint32_t id : {0U, 1U, UINT32_MAX}) {
      auto job = running();
      job.disconnect(102, "closed its connection");
      job.exit(2, "was killed");
      auto honest = hello_of(0), liar = hello_of(1);
      honest.keeps_sets = liar.keeps_sets = true;
      liar.sets = {{{0, false, 0}, id, slots}, {{0, false, 0}, id, slots}};
      job.join(300, honest);
      const auto decided = job.join(301, liar);
      REQUIRE(slots_of(decided) == std::vector<std::int32_t>{0, 1});
      for (const auto& set : decided.roster.sets)
        for (const auto rank : set.members) {
          CHECK(rank >= 0);
          CHECK(rank < 2);
        }
    }
}
