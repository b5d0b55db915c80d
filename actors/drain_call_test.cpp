#include "actors/drain_call.hpp"

#include <catch2/catch.hpp>

#include "actors/kit/loop.hpp"
#include "actors/rendezvous.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// A rendezvous on a loop of its own, and what a tool needs to find it.
struct job {
  loop_system system;
  rendezvous_service service;
  drain_call::target target{"127.0.0.1", 0, "a secret of a test"};

  job() {
    rendezvous_options options;
    options.members = {2, true, 1, 2};
    options.links.credentials = std::make_shared<const tls_credentials>(target.secret);
    auto started = start_rendezvous(system.get(), options);
    REQUIRE(started);
    service = *started;
    target.port = service.port;
  }
  ~job() { caf::anon_send(service.actor, close_atom::value); }
};

/// Plays the elastic driver: everybody who is named leaves, and is out after this time.
generation_watcher_actor::behavior_type obliging(generation_watcher_actor::pointer self,
                                                 const rendezvous_actor& rendezvous,
                                                 std::chrono::nanoseconds out_after) {
  return {
      [](const generation_formed&) {},
      [](const slot_leaving&) {},
      [self, rendezvous, out_after](const drain_asked& asked) {
        draining answer;
        for (const auto rank : asked.what.ranks)
          answer.leavers.push_back({rank, rank + 10, "a"});
        caf::anon_send(rendezvous, drain_answered{asked.link, answer});
        answer.all_out = true;
        self->delayed_send(rendezvous, out_after, drain_answered{asked.link, answer});
      },
  };
}

} // namespace

TEST_CASE("a drain is answered by who leaves, and again when they are out", "[drain]") {
  job running;
  caf::anon_send(running.service.actor,
                 watch_generations{running.system.get().spawn(obliging, running.service.actor, 0ns)});
  drain_call call(running.target, {wire_version, {1}, {}});
  const auto first = call.next(30s);
  REQUIRE(first);
  CHECK(*first == draining{"", {{1, 11, "a"}}, false});
  const auto second = call.next(30s);
  REQUIRE(second);
  CHECK(second->all_out);
  CHECK(call.next(0s).error().kind == error_kind::timed_out);
}

TEST_CASE("who leaves may take longer than the link took to open", "[drain]") {
  job running;
  running.target.connect_timeout = 2s;
  caf::anon_send(running.service.actor,
                 watch_generations{running.system.get().spawn(obliging, running.service.actor, 2500ms)});
  drain_call call(running.target, {wire_version, {1}, {}});
  REQUIRE(call.next(30s));
  const auto second = call.next(30s);
  REQUIRE(second);
  CHECK(second->all_out);
}

TEST_CASE("a job that nobody watches is not elastic, and says so", "[drain]") {
  job running;
  drain_call call(running.target, {wire_version, {0}, {}});
  const auto answer = call.next(30s);
  REQUIRE(answer);
  CHECK_THAT(answer->problem, Catch::Contains("not elastic"));
}

TEST_CASE("a drain of another wire version is refused with both numbers", "[drain]") {
  job running;
  drain_call call(running.target, {wire_version + 1, {0}, {}});
  const auto answer = call.next(30s);
  REQUIRE_FALSE(answer);
  CHECK_THAT(answer.error().text, Catch::Contains("wire version " + std::to_string(wire_version + 1)));
}

TEST_CASE("who does not know the job's secret gets no answer", "[drain]") {
  job running;
  running.target.secret = "another one";
  drain_call call(running.target, {wire_version, {0}, {}});
  const auto answer = call.next(30s);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == error_kind::disconnected);
  CHECK(call.next(0s).error().kind == error_kind::disconnected); // and nothing more
}
