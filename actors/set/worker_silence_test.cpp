// A worker whose operations wait for a member that makes no progress, on virtual time.
#include <catch2/catch.hpp>

#include "actors/set/worker.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

/// A worker of a process set that needs ranks 0 and 2.
class bench {
public:
  bench() : world_(1) {
    post_ = world_.system().spawn(
        [](caf::event_based_actor*) -> caf::behavior { return {[](const outbound&) {}}; });
    member_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const operations_held_up& what) { told.push_back(what.by.rank); }};
    });
    door_ = std::make_shared<door>(1, 2, 65536, [this] { caf::anon_send(worker_, doorbell_atom::value); });
    worker_setup setup;
    setup.door = door_;
    setup.self = {1, 1, 2};
    setup.post = caf::actor_cast<post_actor>(post_);
    setup.member = caf::actor_cast<member_actor>(member_);
    setup.stuck.operation_timeout = 8s;
    setup.depends_on = {0, 2};
    worker_ = world_.system().spawn(worker, std::move(setup));
  }
  ~bench() {
    door_->close();
    for (const auto& actor : {post_, member_, caf::actor_cast<caf::actor>(worker_)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    post_ = member_ = nullptr;
    worker_ = nullptr;
    world_.run_until_idle();
  }

  void submit() {
    signature asked;
    asked.shape = {1};
    REQUIRE(door_->submit({"a", asked, nullptr, nullptr, 0, {}}));
    world_.run_until_quiet();
  }
  void end_all() {
    caf::anon_send(worker_, generation_over{{error_kind::shut_down, "over"}});
    world_.run_until_quiet();
  }
  /// This rank has been silent for an hour, and stays so for this time.
  void silent(std::int32_t rank, std::chrono::nanoseconds time) {
    for (auto passed = 0ns; passed < time; passed += period) {
      caf::anon_send(worker_, processes_silent{{{rank, 1h}}});
      REQUIRE(world_.run_for(period));
    }
  }
  simulation& world() { return world_; }

  std::vector<std::int32_t> told;
  static constexpr std::chrono::milliseconds period{500};

private:
  simulation world_;
  caf::actor post_;
  caf::actor member_;
  std::shared_ptr<door> door_;
  worker_actor worker_;
};

} // namespace

TEST_CASE("an operation that waits for a silent member fails with the operation timeout, and not before") {
  bench table;
  table.submit();
  table.silent(0, 8s);
  CHECK(table.told.empty());
  table.silent(0, 1s);
  REQUIRE_FALSE(table.told.empty());
  CHECK(table.told.front() == 0);
}

TEST_CASE("no operation is held up by a member that its set does not need, nor where none waits") {
  bench table;
  table.silent(0, 1h);
  CHECK(table.told.empty());
  table.submit();
  table.silent(1, 1h);
  CHECK(table.told.empty());
}

TEST_CASE("only the time in which somebody is silent counts") {
  bench table;
  table.submit();
  table.silent(2, 7s);
  REQUIRE(table.world().run_for(1h)); // it makes progress again
  table.silent(2, 7s);
  CHECK(table.told.empty());
  table.silent(2, 2s);
  CHECK_FALSE(table.told.empty());
}

TEST_CASE("what has ended is held up by nobody") {
  bench table;
  table.submit();
  table.silent(2, 7s);
  table.end_all();
  table.silent(2, 1h);
  CHECK(table.told.empty());
}
