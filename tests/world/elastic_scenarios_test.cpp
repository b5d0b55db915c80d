// Elastic jobs with a single, specific fault each.
#include "tests/world/elastic_scenarios_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("elastic scenario: a removal needs no sync, and a member that joins makes all members sync") {
  // host-c is removed, and host-d is added later: the old members need no sync, but the new member does.
  auto options = calm(3);
  options.rounds = 60;
  options = with_more(options, 1500ms, {{"host-a", 1}, {"host-b", 1}});
  options = with_more(options, 2500ms, {{"host-a", 1}, {"host-b", 1}, {"host-d", 1}});
  const auto report = played(options, {});
  CHECK(report.code == 0);
  CHECK(has_line(report, "generation 2 of slots 0 1, which need not sync"));
  CHECK(has_line(report, "generation 3 of slots 0 1 3, which must sync"));
}

TEST_CASE("elastic scenario: the job continues after all hosts were on the blacklist for a while") {
  auto options = calm(2);
  options.cooldown = true;
  options.fewest = 2;
  const auto report = played(
      options, once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(1); }));
  CHECK(has_line(report, "host host-b gets no new workers for"));
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2});
}

TEST_CASE("elastic scenario: the job ends with the reason if all hosts stay on the blacklist") {
  auto options = calm(2);
  options.fewest = 2;
  const auto report = played(
      options, once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(0); }));
  CHECK(report.code == 137);
  CHECK(has_line(report, "no other hosts can come; hosts: host-a:1 (failed), host-b:1"));
}

TEST_CASE("elastic scenario: the job survives a second death while members regroup after the first") {
  const auto first =
      once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(3); });
  const auto second =
      once(1, a_loss, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(1); });
  const auto report = played(calm(4), [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                          const envelope& message) mutable {
    first(world, from, to, message);
    second(world, from, to, message);
  });
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2});
  CHECK(report.generations == 2);
}

TEST_CASE("elastic scenario: a death during the first connect ends no other member") {
  const auto report = played(
      calm(3), once(1, a_welcome, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(1); }));
  CHECK(report.code == 0);
  CHECK(report.finished == 2);
  CHECK(report.last_slots == slots{0, 2});
}

TEST_CASE("elastic scenario: the job stops waiting for a member that leaves as planned and never returns") {
  auto options = with_more(calm(3), 1500ms, {{"host-a", 1}, {"host-b", 1}});
  const auto report = played(options, [done = false](elastic_world& world, std::int32_t from, std::int32_t,
                                                     const envelope& message) mutable {
    if (!done && from == 1 && is(message, wire::Envelope::Body::FAREWELL)) {
      done = true;
      world.block_rendezvous(1, true, true, true);
    }
  });
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0});
}

TEST_CASE("elastic scenario: after the death of rank 0 the oldest remaining member becomes rank 0") {
  const auto report =
      played(calm(3), once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
               world.kill(world.slots().at(0));
             }));
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{1, 2});
}

TEST_CASE("elastic scenario: the job survives the death of the leader of a process set without rank 0") {
  auto options = calm(4);
  options.sets_every = 1;
  const auto report = played(options, [done = false](elastic_world& world, std::int32_t, std::int32_t,
                                                     const envelope& message) mutable {
    if (!done && message.set() != 0 && is(message, a_request)) {
      done = true;
      world.kill(world.slots().at(1));
    }
  });
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2, 3});
}

TEST_CASE("elastic scenario: the job survives a death while another member is removed") {
  auto options = calm(4);
  options = with_more(options, 1500ms, {{"host-a", 1}, {"host-b", 1}, {"host-c", 1}});
  const auto report =
      played(options, once(1, wire::Envelope::Body::CHANGED,
                           [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(0); }));
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{1, 2});
  CHECK(has_line(report, "generation 2 of slots 1 2, which must sync"));
}

TEST_CASE("elastic scenario: a regroup waits for a member that hears of a loss late over a one-way link") {
  auto blocked = once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
    world.block_rendezvous(2, false, true, true);
    world.kill(1);
  });
  // The other members rejoin, and wait for the member that does not know of the loss.
  auto freed = [hellos = 0](elastic_world& world, std::int32_t, std::int32_t,
                            const envelope& message) mutable {
    if (world.generation() == 1 && is(message, a_hello) && ++hellos == 1)
      world.block_rendezvous(2, false, true, false);
  };
  bool armed = false;
  const auto report =
      played(calm(3), [&](elastic_world& world, std::int32_t from, std::int32_t to, const envelope& message) {
        blocked(world, from, to, message);
        armed = armed || is(message, a_request);
        if (armed)
          freed(world, from, to, message);
      });
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2});
}

TEST_CASE("elastic scenario: the job stops waiting for a member that the rendezvous cannot hear") {
  const auto report =
      played(calm(3), once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
               world.block_rendezvous(2, true, false, true);
               world.kill(1);
             }));
  CHECK(report.code == 0);
  CHECK(report.generations >= 2);
  CHECK(report.last_slots.at(0) == 0);
}

TEST_CASE("elastic scenario: a link that breaks during the welcome does not keep other members waiting") {
  auto options = calm(3);
  const auto first =
      once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(0); });
  const auto second = once(2, a_welcome, [](elastic_world& world, std::int32_t, std::int32_t to) {
    world.break_rendezvous_link(to, 5ms);
  });
  const auto report = played(options, [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                          const envelope& message) mutable {
    first(world, from, to, message);
    second(world, from, to, message);
  });
  CHECK(report.code == 0);
  CHECK(report.last_slots.size() == 2);
  CHECK_FALSE(has_line(report, "did not come together"));
}

TEST_CASE("elastic scenario: training continues without a rendezvous, and a new rendezvous allows changes") {
  auto options = calm(3);
  options.apart = true;
  const auto report = played(options, without_its_rendezvous_for_a_while());
  CHECK(report.code == 0);
  CHECK(report.generations == 2);
  CHECK(report.last_slots == slots{0, 2});
  CHECK(has_line(report, "training goes on, but the job's members cannot change until it is back"));
}

TEST_CASE(
    "elastic scenario: no member trains in a generation that a dying rendezvous announced only in part") {
  for (const bool machine : {false, true}) {
    auto options = calm(3);
    options.apart = true;
    auto lost = once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(0); });
    auto gone = once(2, a_welcome, [=](elastic_world& world, std::int32_t, std::int32_t) {
      world.service().end(machine);
      world.after(200ms, [&world] { world.service().start(); });
    });
    const auto report = played(options, [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                            const envelope& message) mutable {
      lost(world, from, to, message);
      gone(world, from, to, message);
    });
    CHECK(report.code == 0);
    CHECK(report.last_slots == slots{1, 2});
  }
}

TEST_CASE("elastic scenario: the job continues with a full disk, and the journal continues afterwards") {
  auto options = calm(4);
  options.apart = true;
  auto full = once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
    world.service().fill_disk(true);
    world.kill(3);
  });
  auto room = once(2, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
    world.service().fill_disk(false);
    world.kill(2);
  });
  // The journal contains all events of that time.
  auto gone = once(3, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
    world.service().end(false);
    world.after(500ms, [&world] { world.service().start(); });
  });
  auto lost = once(3, wire::Envelope::Body::RESUMED,
                   [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(0); });
  const auto report = played(options, [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                          const envelope& message) mutable {
    for (auto* entry : {&full, &room, &gone, &lost})
      (*entry)(world, from, to, message);
  });
  CHECK(report.code == 0);
  CHECK(report.generations == 4);
  CHECK(report.last_slots == slots{1});
  CHECK(has_line(report, "No space left on device"));
}

TEST_CASE("elastic scenario: of two rendezvous with copies of one journal the earlier one steps down") {
  int stepped_down = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    auto options = calm(5);
    options.seed = seed;
    options.fewest = 3; // three of five, so that the job cannot split in two
    options.apart = true;
    // A member that rejoins reaches either rendezvous, and may have obeyed the other one before.
    auto second = once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
      world.service().start_second();
      world.after(1s, [&world] { world.kill(4); });
      world.after(120s, [&world] { world.service().end_lower(); });
    });
    auto lost = once(2, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
      world.after(1s, [&world] { world.kill(3); });
    });
    const auto report = played(options, [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                            const envelope& message) mutable {
      second(world, from, to, message);
      lost(world, from, to, message);
    });
    // The launcher may be linked to the rendezvous that no member obeys, and then does not learn the
    // survivors of a failure.
    CHECK(report.finished > 0);
    stepped_down += has_line(report, "the job's members obey another one");
  }
  CHECK(stepped_down > 0);
}

TEST_CASE("elastic scenario: training completes with each kind of fault by itself") {
  for (std::size_t kind = 0; kind < fault_kind_count; ++kind)
    for (const std::uint64_t at : {3, 40, 90, 200}) {
      auto options = calm(3);
      options.rounds = 12;
      options.cooldown = true;
      options.apart = kind >= static_cast<std::size_t>(fault_kind::rendezvous_death);
      options = with_more(options, 60'000ms, options.hosts.front().hosts);
      options.faults.push_back({static_cast<fault_kind>(kind), at, 1500ms, at * 7 + kind});
      INFO(to_string(options.faults.front()));
      const auto report = run_elastic(options);
      if (!report.problems.empty())
        FAIL_CHECK(report.problems.front() << "\n" << story_of(options));
      if (report.finished == 0)
        FAIL_CHECK("no member has completed training\n" << story_of(options));
    }
}
