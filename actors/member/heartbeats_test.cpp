// Heartbeats between members, over links and in shared memory, on virtual time.
#include "actors/member/heartbeats.hpp"

#include <catch2/catch.hpp>

#include <array>

#include "actors/interfaces/message_router.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

constexpr std::int32_t count = 4;

/// Ranks 0 to 3, of which 0 and 1 are on one host, and 2 and 3 on hosts of their own. All ranks have
/// a link to rank 0.
class four_members {
public:
  /// `absent`: a rank whose link has not opened yet, so that the members are not all connected.
  explicit four_members(bool shares_memory = true, std::int32_t absent = -1) : world_(1) {
    segment_layout layout;
    layout.members = 2;
    layout.chunk_bytes = 4096;
    auto made = shm_segment::create(layout);
    REQUIRE(made);
    segment_ = std::move(*made);
    for (std::int32_t rank = 0; rank < count; ++rank) {
      if (rank != absent)
        start(rank, shares_memory);
      if (absent < 0)
        connected(rank);
    }
    // Rank 0 made its first check before the other ranks had started.
    run(period());
  }
  ~four_members() {
    for (auto& member : members_) {
      for (const auto& actor : {member.router, member.root, member.beats})
        if (actor)
          caf::anon_send_exit(actor, caf::exit_reason::kill);
      member = {};
    }
    world_.run_until_idle();
  }

  static std::chrono::nanoseconds period() { return stuck_rules{}.period(); }
  void run(std::chrono::nanoseconds time) { REQUIRE(world_.run_for(time)); }
  /// Tells the rank that all members are connected.
  void connected(std::int32_t rank) {
    caf::anon_send(members_[static_cast<std::size_t>(rank)].beats, ready_atom::value);
  }
  /// Ends the heartbeats of the rank, as if its process made no progress any more.
  void stop(std::int32_t rank) {
    caf::anon_send_exit(members_[static_cast<std::size_t>(rank)].beats, caf::exit_reason::kill);
    run(0s);
  }
  /// The silent ranks that the member shows to other threads. Checks that the member's root was told the same.
  std::vector<std::int32_t> silent(std::int32_t rank) {
    auto& entry = members_[static_cast<std::size_t>(rank)];
    std::vector<std::int32_t> silent_ranks;
    for (const auto& silent_member : entry.shared->silent.get())
      silent_ranks.push_back(silent_member.rank);
    if (!silent_ranks.empty())
      CHECK(silent_ranks == entry.told);
    return silent_ranks;
  }
  std::optional<recorded_clock> clock_above(std::int32_t rank) const {
    return members_[static_cast<std::size_t>(rank)].shared->clock_above.get();
  }
  std::size_t sent(std::int32_t from, std::int32_t to) {
    return std::exchange(sent_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)], 0);
  }

private:
  struct member_entry {
    std::shared_ptr<shared_member_state> shared;
    caf::actor router, root, beats;
    std::vector<std::int32_t> told;
  };

  void start(std::int32_t rank, bool shares_memory) {
    auto& entry = members_[static_cast<std::size_t>(rank)];
    entry.shared = std::make_shared<shared_member_state>();
    entry.shared->rank = rank;
    entry.shared->generation = 1;
    entry.shared->members.resize(count);
    entry.shared->tree = std::make_shared<relay_tree>(count);
    if (rank < 2 && shares_memory)
      entry.shared->heartbeats.set(std::make_shared<heartbeat_words>(
          segment_, static_cast<std::uint32_t>(rank), std::vector<std::int32_t>{0, 1}));
    entry.router = world_.system().spawn([this, rank](caf::event_based_actor* self) -> caf::behavior {
      return {[this, rank, self](const neighbour_message& event) {
        if (event.message.kind() == wire::Envelope::Body::HEARTBEAT)
          ++sent_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(event.rank)];
        if (const auto& to = members_[static_cast<std::size_t>(event.rank)].beats)
          self->send(to, event.message);
      }};
    });
    entry.root = world_.system().spawn([&entry](caf::event_based_actor*) -> caf::behavior {
      return {[&entry](const processes_silent& report) {
        entry.told.clear();
        for (const auto& silent_member : report.ranks)
          entry.told.push_back(silent_member.rank);
      }};
    });
    entry.beats = caf::actor_cast<caf::actor>(
        world_.system().spawn(heartbeats, heartbeats_setup{entry.shared, {}, entry.router, entry.root}));
  }

  simulation world_;
  std::shared_ptr<shm_segment> segment_;
  std::array<member_entry, count> members_;
  std::array<std::array<std::size_t, count>, count> sent_{};
};

using ranks = std::vector<std::int32_t>;

} // namespace

TEST_CASE("no rank is reported silent while all processes make progress") {
  four_members job;
  job.run(60s);
  for (std::int32_t rank = 0; rank < count; ++rank)
    CHECK(job.silent(rank).empty());
}

TEST_CASE("all members learn of a member that makes no progress, on any host") {
  const auto stopped = GENERATE(0, 1, 2);
  four_members job;
  job.run(10s);
  job.stop(stopped);
  job.run(stuck_rules{}.minimum() - job.period());
  for (std::int32_t rank = 0; rank < count; ++rank)
    CHECK(job.silent(rank).empty());
  job.run(4 * job.period());
  for (std::int32_t rank = 0; rank < count; ++rank)
    if (rank != stopped) {
      // Heartbeats between hosts pass through rank 0: without it, the other ranks hear nothing of each other.
      CAPTURE(stopped, rank);
      CHECK(job.silent(rank) == ranks{stopped});
    }
}

TEST_CASE("members that share memory send each other no heartbeats over links until a rank is silent") {
  four_members job;
  job.run(1s);
  job.sent(0, 1), job.sent(1, 0), job.sent(0, 2), job.sent(2, 0);
  job.run(10s);
  CHECK(job.sent(0, 1) == 0);
  CHECK(job.sent(1, 0) == 0);
  CHECK(job.sent(0, 2) == 20);
  CHECK(job.sent(2, 0) == 20);
  job.stop(3);
  job.run(10s);
  CHECK(job.sent(0, 1) > 0);
  CHECK(job.sent(1, 0) == 0);
}

TEST_CASE("links carry the heartbeats of members on one host that share no memory") {
  four_members job(false);
  job.run(10s);
  CHECK(job.silent(0).empty());
  CHECK(job.silent(1).empty());
  job.stop(1);
  job.run(10s);
  CHECK(job.silent(0) == ranks{1});
}

TEST_CASE("the silence of a rank is counted from the time all members are connected, not from the start") {
  four_members job(true, 2);
  job.run(60s);
  CHECK(job.silent(0).empty());
  CHECK(job.silent(3).empty());
  job.connected(0);
  job.run(stuck_rules{}.minimum() - job.period());
  CHECK(job.silent(0).empty());
  job.run(2 * job.period());
  CHECK(job.silent(0) == ranks{2});
}

TEST_CASE("members measure the clock of the member above them, if it is on another host") {
  four_members job;
  job.run(1s);
  for (const auto rank : {0, 1})
    CHECK_FALSE(job.clock_above(rank));
  for (const auto rank : {2, 3}) {
    const auto first = job.clock_above(rank);
    REQUIRE(first);
    CHECK(first->peer == 0);
    CHECK(first->offset == 0ns); // all members of this simulation have one clock
    job.run(31s);
    CHECK(job.clock_above(rank)->measured >= first->measured + 30s);
  }
}
