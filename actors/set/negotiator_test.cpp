#include "actors/set/negotiator.hpp"

#include <catch2/catch.hpp>

#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

/// A negotiator of two members in generation 3, what it decides and whom it blames.
class bench {
public:
  bench() : world_(1) {
    auto& system = world_.system();
    ear_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const verdict_message& message) { verdicts.push_back(*message.decided); },
              [this](const member_fault& fault) { faults.push_back(fault); }};
    });
    negotiation_options options;
    options.members = {0, 1};
    negotiator_ =
        system.spawn(negotiator, set_place{3, 0, 0}, options, caf::actor_cast<fusion_scheduler_actor>(ear_),
                     caf::actor_cast<member_watcher_actor>(ear_));
  }
  ~bench() {
    caf::anon_send_exit(negotiator_, caf::exit_reason::kill);
    caf::anon_send_exit(ear_, caf::exit_reason::kill);
    negotiator_ = nullptr;
    ear_ = nullptr;
    world_.run_until_idle();
  }

  void hear(const envelope& message) {
    caf::anon_send(negotiator_, message);
    world_.run_until_quiet();
  }
  std::vector<stall> stalled(std::chrono::nanoseconds limit) {
    caf::scoped_actor asking(world_.system());
    asking->send(negotiator_, stalled_atom::value, limit);
    world_.run_until_quiet();
    std::vector<stall> result;
    REQUIRE(asking->has_next_message());
    asking->receive([&](const stall_list& list) { result = list.stalls; });
    return result;
  }
  simulation& world() { return world_; }

  std::vector<verdict> verdicts;
  std::vector<member_fault> faults;

private:
  simulation world_;
  caf::actor ear_;
  negotiator_actor negotiator_;
};

requests ask(std::string name) {
  requests what;
  what.full.push_back({std::move(name), {}, 0, 0});
  return what;
}

} // namespace

TEST_CASE("the negotiator passes on what is decided, and nothing while nothing is") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  CHECK(table.verdicts.empty());
  table.hear(encode({3, 0, 1}, ask("a")));
  REQUIRE(table.verdicts.size() == 1);
  CHECK(table.verdicts[0].ready.size() == 1);
  CHECK(table.faults.empty());
}

TEST_CASE("messages of another generation or set count for nothing") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({2, 0, 1}, ask("a")));
  table.hear(encode({4, 0, 1}, ask("a")));
  table.hear(encode({3, 1, 1}, ask("a")));
  CHECK(table.verdicts.empty());
  CHECK(table.faults.empty());
}

TEST_CASE("who sends what cannot be read, or may not be sent, is told to the parent, and the others go on") {
  bench table;
  table.hear(encode({3, 0, 1}, schedule{}));
  REQUIRE(table.faults.size() == 1);
  CHECK(table.faults[0].rank == 1);
  table.hear(encode({3, 0, 7}, ask("a")));
  REQUIRE(table.faults.size() == 2);
  CHECK(table.faults[1].rank == 7);
  CHECK(table.faults[1].reason.find("not in this process set") != std::string::npos);
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({3, 0, 1}, ask("a")));
  CHECK(table.verdicts.size() == 1);
}

TEST_CASE("the negotiator tells who is late") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.world().run_for(61s);
  CHECK(table.stalled(60s) == std::vector<stall>{{"a", 61s, {1}}});
  CHECK(table.stalled(62s).empty());
}
