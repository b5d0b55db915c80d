#include "actors/event_loop/supervision.hpp"

#include "tests/world/simulation.hpp"

#include <catch2/catch.hpp>

namespace farandole {
namespace {

using namespace std::chrono_literals;
using indexes = std::vector<std::size_t>;

instant at(std::chrono::nanoseconds since) {
  return instant{since};
}

supervision_rules rules(restart_strategy strategy, restart_intensity intensity = {}) {
  return {{"a", "b", "c"}, strategy, intensity};
}

TEST_CASE("children start in order and stop in reverse order, one after the other") {
  auto subject = rules(restart_strategy::one_for_one);
  CHECK(subject.begin().start == indexes{0, 1, 2});
  CHECK(subject.stop().stop == indexes{2});
  CHECK(subject.ended(2, "", at(1s)).stop == indexes{1});
  CHECK(subject.ended(1, "", at(1s)).stop == indexes{0});
  auto last = subject.ended(0, "", at(1s));
  CHECK(last.done);
  CHECK(last.stop.empty());
  CHECK(last.start.empty());
}

TEST_CASE("one-for-one restarts the child that ended and no other child") {
  auto subject = rules(restart_strategy::one_for_one);
  subject.begin();
  auto next = subject.ended(1, "boom", at(1s));
  CHECK(next.start == indexes{1});
  CHECK(next.stop.empty());
  CHECK_FALSE(next.done);
}

TEST_CASE("all-for-one stops the other children in reverse order, then starts all in order") {
  auto subject = rules(restart_strategy::all_for_one);
  subject.begin();
  auto next = subject.ended(1, "boom", at(1s));
  CHECK(next.stop == indexes{2});
  CHECK(next.start.empty());
  next = subject.ended(2, "", at(1s));
  CHECK(next.stop == indexes{0});
  next = subject.ended(0, "", at(1s));
  CHECK(next.start == indexes{0, 1, 2});
}

TEST_CASE("a child that ends while others are being stopped is not stopped again") {
  auto subject = rules(restart_strategy::all_for_one);
  subject.begin();
  CHECK(subject.ended(1, "boom", at(1s)).stop == indexes{2});
  CHECK(subject.ended(0, "boom too", at(1s)).stop == indexes{2}); // the end of child 2 is still to come
  CHECK(subject.ended(2, "", at(1s)).start == indexes{0, 1, 2});
}

TEST_CASE("one failure counts once against the restart intensity, even if several children end with it") {
  auto subject = rules(restart_strategy::all_for_one, {.limit = 1, .period = 10s});
  subject.begin();
  subject.ended(1, "boom", at(1s));
  subject.ended(0, "", at(1s));
  CHECK(subject.ended(2, "", at(1s)).give_up.empty());
  CHECK_FALSE(subject.ended(0, "boom", at(2s)).give_up.empty());
}

TEST_CASE("after too many failures in the period, the supervisor stops the rest and gives up with a reason") {
  auto subject = rules(restart_strategy::one_for_one, {.limit = 2, .period = 10s});
  subject.begin();
  CHECK(subject.ended(0, "x", at(1s)).start == indexes{0});
  CHECK(subject.ended(0, "x", at(2s)).start == indexes{0});
  auto next = subject.ended(0, "it fell", at(3s));
  CHECK(next.start.empty());
  CHECK(next.stop == indexes{2});
  CHECK_FALSE(next.done);
  CHECK(subject.ended(2, "", at(3s)).stop == indexes{1});
  next = subject.ended(1, "", at(3s));
  CHECK(next.done);
  CHECK_THAT(next.give_up, Catch::Contains("'a' ended (it fell)") && Catch::Contains("10 s"));
}

TEST_CASE("failures farther apart than the period never add up") {
  auto subject = rules(restart_strategy::one_for_one, {.limit = 1, .period = 10s});
  subject.begin();
  for (int i = 0; i < 20; ++i)
    REQUIRE(subject.ended(0, "x", at(10s * i)).start == indexes{0});
}

TEST_CASE("a stop in the middle of a restart stops the remaining children and starts none") {
  auto subject = rules(restart_strategy::all_for_one);
  subject.begin();
  CHECK(subject.ended(1, "boom", at(1s)).stop == indexes{2});
  auto next = subject.stop();
  CHECK(next.stop.empty());
  CHECK_FALSE(next.done);
  CHECK(subject.ended(2, "", at(1s)).stop == indexes{0});
  CHECK(subject.ended(0, "", at(1s)).done);
}

TEST_CASE("a supervisor without children stops at once") {
  supervision_rules rules{{}, restart_strategy::all_for_one, {}};
  CHECK(rules.begin().start.empty());
  CHECK(rules.stop().done);
}

// ---- the actor, on virtual time ----

using fall_atom = caf::atom_constant<caf::atom("fall")>;

/// A supervisor of children that record when they start and when they end.
struct supervised_children {
  testing::simulation world;
  std::vector<std::string> told;
  caf::actor top, watcher;
  std::optional<caf::error> ended;

  explicit supervised_children(supervisor_spec spec, std::uint64_t seed = 1) : world(seed) {
    for (const char* name : {"a", "b", "c"})
      spec.children.push_back(
          {name, [this, name](caf::event_based_actor* self) { return child(self, name); }});
    top = world.system().spawn(supervisor, spec);
    // The test keeps this handle, because CAF ends an actor without references.
    watcher = world.system().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      self->monitor(top);
      self->set_down_handler([this, self](const caf::down_msg& message) {
        ended = message.reason;
        self->quit();
      });
      return {[](int) {}};
    });
    REQUIRE(world.run_until_quiet());
  }
  ~supervised_children() {
    caf::anon_send_exit(top, caf::exit_reason::user_shutdown);
    top = nullptr;
    CHECK(world.run_until_idle());
    CHECK(ended);
  }

  caf::actor child(caf::event_based_actor* parent, const std::string& name) {
    told.push_back("+" + name);
    return parent->spawn([this, name](caf::event_based_actor* self) -> caf::behavior {
      self->attach_functor([this, name] { told.push_back("-" + name); });
      return {[self](fall_atom) { self->quit(caf::make_error(caf::sec::runtime_error, "it fell")); }};
    });
  }
  caf::actor named(const std::string& name) {
    caf::actor found;
    world.system().spawn([&, name](caf::event_based_actor* self) {
      self->request(top, caf::infinite, child_atom::value, name)
          .then([&](const caf::actor& handle) { found = handle; }, [](const caf::error&) {});
    });
    REQUIRE(world.run_until_quiet());
    return found;
  }
  void fall(const std::string& name) {
    caf::anon_send(named(name), fall_atom::value);
    REQUIRE(world.run_until_quiet());
  }
};

using story = std::vector<std::string>;

TEST_CASE("a supervised child that fails is restarted as a new actor") {
  supervised_children subject{{.name = "top", .strategy = restart_strategy::one_for_one}};
  auto before = subject.named("b");
  subject.fall("b");
  CHECK(subject.told == story{"+a", "+b", "+c", "-b", "+b"});
  CHECK(subject.named("b"));
  CHECK(subject.named("b") != before);
  CHECK_FALSE(subject.named("nobody"));
}

TEST_CASE("all-for-one stops in reverse and starts in order, for any delivery order of messages") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    supervised_children subject{{.name = "top", .strategy = restart_strategy::all_for_one}, seed};
    subject.fall("b");
    CHECK(subject.told == story{"+a", "+b", "+c", "-b", "-c", "-a", "+a", "+b", "+c"});
  }
}

TEST_CASE(
    "a supervisor that is told to end stops its children in reverse order, then ends with that reason") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    supervised_children subject{{.name = "top"}, seed};
    caf::anon_send_exit(subject.top, caf::exit_reason::user_shutdown);
    REQUIRE(subject.world.run_until_quiet());
    CHECK(subject.told == story{"+a", "+b", "+c", "-c", "-b", "-a"});
    REQUIRE(subject.ended);
    CHECK(*subject.ended == caf::exit_reason::user_shutdown);
  }
}

TEST_CASE("a supervisor gives up on a child that keeps failing and tells its parent the reason") {
  supervised_children subject{{.name = "top", .intensity = {.limit = 2, .period = 10s}}};
  subject.fall("a");
  REQUIRE(subject.world.run_for(11s));
  subject.fall("a");
  subject.fall("a");
  CHECK_FALSE(subject.ended);
  subject.fall("a");
  REQUIRE(subject.ended);
  CHECK_THAT(subject.world.system().render(*subject.ended),
             Catch::Contains("'a' ended") && Catch::Contains("it fell"));
}

TEST_CASE("a child that ignores the order to end is killed at the deadline") {
  testing::simulation world{1};
  bool killed = false;
  supervisor_spec spec{.name = "top", .stop_timeout = 3s};
  spec.children.push_back(
      {"deaf", [&](caf::event_based_actor* parent) {
         return parent->spawn([&](caf::event_based_actor* self) -> caf::behavior {
           self->set_exit_handler([](const caf::exit_msg&) {});
           self->attach_functor([&](const caf::error& reason) { killed = reason == caf::exit_reason::kill; });
           return {[](int) {}};
         });
       }});
  auto top = world.system().spawn(supervisor, spec);
  caf::anon_send_exit(top, caf::exit_reason::user_shutdown);
  top = nullptr;
  REQUIRE(world.run_for(2900ms));
  CHECK_FALSE(killed);
  REQUIRE(world.run_for(200ms));
  CHECK(killed);
}

} // namespace
} // namespace farandole
