// Members that give signs of life to each other, by links and in shared memory, on virtual time.
#include "actors/heartbeats.hpp"

#include <catch2/catch.hpp>

#include <array>

#include "actors/interfaces/post.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

constexpr std::int32_t count = 4;

/// Ranks 0 to 3, of which 0 and 1 are on one host, and 2 and 3 on hosts of their own. All speak with rank 0.
class crew {
public:
  /// `absent`: this rank's link has not opened yet, and so not all are connected.
  explicit crew(bool shares_memory = true, std::int32_t absent = -1) : world_(1) {
    window_layout layout;
    layout.members = 2;
    layout.chunk_bytes = 4096;
    auto made = window::create(layout);
    REQUIRE(made);
    window_ = std::move(*made);
    for (std::int32_t rank = 0; rank < count; ++rank) {
      if (rank != absent)
        start(rank, shares_memory);
      if (absent < 0)
        connected(rank);
    }
    // Rank 0 took its first look before the others were there.
    run(period());
  }
  ~crew() {
    for (auto& one : members_) {
      for (const auto& actor : {one.post, one.root, one.beats})
        if (actor)
          caf::anon_send_exit(actor, caf::exit_reason::kill);
      one = {};
    }
    world_.run_until_idle();
  }

  static std::chrono::nanoseconds period() { return stuck_rules{}.period(); }
  void run(std::chrono::nanoseconds time) { REQUIRE(world_.run_for(time)); }
  /// It hears that all are connected.
  void connected(std::int32_t rank) {
    caf::anon_send(members_[static_cast<std::size_t>(rank)].beats, ready_atom::value);
  }
  /// Its process makes no progress any more.
  void stop(std::int32_t rank) {
    caf::anon_send_exit(members_[static_cast<std::size_t>(rank)].beats, caf::exit_reason::kill);
    run(0s);
  }
  /// As the member was told last, and as it stands for other threads.
  std::vector<std::int32_t> silent(std::int32_t rank) {
    auto& one = members_[static_cast<std::size_t>(rank)];
    std::vector<std::int32_t> known;
    for (const auto& each : one.shared->silent.get())
      known.push_back(each.rank);
    if (!known.empty())
      CHECK(known == one.told);
    return known;
  }
  std::size_t sent(std::int32_t from, std::int32_t to) {
    return std::exchange(sent_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)], 0);
  }

private:
  struct one {
    std::shared_ptr<standing> shared;
    caf::actor post, root, beats;
    std::vector<std::int32_t> told;
  };

  void start(std::int32_t rank, bool shares_memory) {
    auto& here = members_[static_cast<std::size_t>(rank)];
    here.shared = std::make_shared<standing>();
    here.shared->rank = rank;
    here.shared->generation = 1;
    here.shared->members.resize(count);
    here.shared->tree = std::make_shared<relay_tree>(count);
    if (rank < 2 && shares_memory)
      here.shared->heartbeats.set(std::make_shared<heartbeat_words>(window_, static_cast<std::uint32_t>(rank),
                                                                    std::vector<std::int32_t>{0, 1}));
    here.post = world_.system().spawn([this, rank](caf::event_based_actor* self) -> caf::behavior {
      return {[this, rank, self](const outbound_to_neighbour& what) {
        ++sent_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(what.rank)];
        if (const auto& to = members_[static_cast<std::size_t>(what.rank)].beats)
          self->send(to, what.message);
      }};
    });
    here.root = world_.system().spawn([&here](caf::event_based_actor*) -> caf::behavior {
      return {[&here](const processes_silent& what) {
        here.told.clear();
        for (const auto& each : what.ranks)
          here.told.push_back(each.rank);
      }};
    });
    here.beats = caf::actor_cast<caf::actor>(
        world_.system().spawn(heartbeats, heartbeats_setup{here.shared, {}, here.post, here.root}));
  }

  simulation world_;
  std::shared_ptr<window> window_;
  std::array<one, count> members_;
  std::array<std::array<std::size_t, count>, count> sent_{};
};

using ranks = std::vector<std::int32_t>;

} // namespace

TEST_CASE("nobody is silent while all processes make progress") {
  crew job;
  job.run(60s);
  for (std::int32_t rank = 0; rank < count; ++rank)
    CHECK(job.silent(rank).empty());
}

TEST_CASE("all members learn of a member that makes no progress, whatever host it is on") {
  const auto stopped = GENERATE(0, 1, 2);
  crew job;
  job.run(10s);
  job.stop(stopped);
  job.run(stuck_rules{}.least() - job.period());
  for (std::int32_t rank = 0; rank < count; ++rank)
    CHECK(job.silent(rank).empty());
  job.run(4 * job.period());
  for (std::int32_t rank = 0; rank < count; ++rank)
    if (rank != stopped) {
      // Rank 0 stands between hosts: without it the others hear nothing of each other.
      CAPTURE(stopped, rank);
      CHECK(job.silent(rank) == ranks{stopped});
    }
}

TEST_CASE("members that share memory say nothing to each other over links unless there is news") {
  crew job;
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

TEST_CASE("where members on one host share no memory, their links carry the heartbeats") {
  crew job(false);
  job.run(10s);
  CHECK(job.silent(0).empty());
  CHECK(job.silent(1).empty());
  job.stop(1);
  job.run(10s);
  CHECK(job.silent(0) == ranks{1});
}

TEST_CASE("who is heard for the first time long after the start has not been silent") {
  crew job(true, 2);
  job.run(60s);
  CHECK(job.silent(0).empty());
  CHECK(job.silent(3).empty());
  job.connected(0);
  job.run(stuck_rules{}.least() - job.period());
  CHECK(job.silent(0).empty());
  job.run(2 * job.period());
  CHECK(job.silent(0) == ranks{2});
}
