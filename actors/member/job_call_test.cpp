#include "actors/member/job_call.hpp"

#include <catch2/catch.hpp>

#include "actors/event_loop/link_testing.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/member/drain_call.hpp"
#include "actors/rendezvous/rendezvous.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// A rendezvous on its own loop, and the target by which a tool finds it.
struct job {
  loop_system system;
  rendezvous_service service;
  job_target target{"127.0.0.1", 0, "a secret of a test"};

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

/// Plays the elastic driver: every rank that is named leaves, and its process has ended after `out_after`.
generation_watcher_actor::behavior_type agreeing_driver(generation_watcher_actor::pointer self,
                                                        const rendezvous_actor& rendezvous,
                                                        std::chrono::nanoseconds out_after) {
  return {
      [](const generation_formed&) {},
      [](const slot_leaving&) {},
      [self, rendezvous, out_after](const drain_asked& asked) {
        draining answer;
        for (const auto rank : asked.request.ranks)
          answer.leavers.push_back({rank, rank + 10, "a"});
        caf::anon_send(rendezvous, drain_answered{asked.link, answer});
        answer.all_out = true;
        self->delayed_send(rendezvous, out_after, drain_answered{asked.link, answer});
      },
  };
}

} // namespace

TEST_CASE("a drain is answered with the ranks that leave, and again once their processes have ended",
          "[drain]") {
  job running;
  caf::anon_send(running.service.actor,
                 watch_generations{running.system.get().spawn(agreeing_driver, running.service.actor, 0ns)});
  drain_call call(running.target, {wire_version, {1}, {}});
  const auto first = call.next(patience);
  REQUIRE(first);
  CHECK(*first == draining{"", {{1, 11, "a"}}, false});
  const auto second = call.next(patience);
  REQUIRE(second);
  CHECK(second->all_out);
  CHECK(call.next(0s).error().kind == error_kind::timed_out);
}

TEST_CASE("ranks that leave may take longer than the connect timeout of the drain's link", "[drain]") {
  // A busy machine may need longer than the first of these timeouts to connect. A second answer comes only after the
  // timeout: the ranks take as long, and they begin after the dial.
  for (auto timeout = 250ms;; timeout *= 2) {
    job running;
    running.target.connect_timeout = timeout;
    caf::anon_send(running.service.actor, watch_generations{running.system.get().spawn(
                                              agreeing_driver, running.service.actor, timeout)});
    drain_call call(running.target, {wire_version, {1}, {}});
    const auto first = call.next(patience);
    if (!first && timeout < 30s)
      continue;
    REQUIRE(first);
    const auto second = call.next(patience);
    REQUIRE(second);
    CHECK(second->all_out);
    return;
  }
}

TEST_CASE("a drain of a job without a generation watcher is refused because the job is not elastic",
          "[drain]") {
  job running;
  drain_call call(running.target, {wire_version, {0}, {}});
  const auto answer = call.next(patience);
  REQUIRE(answer);
  CHECK_THAT(answer->problem, Catch::Contains("not elastic"));
}

TEST_CASE("a drain of another wire version is refused, and the error names that version", "[drain]") {
  job running;
  drain_call call(running.target, {wire_version + 1, {0}, {}});
  const auto answer = call.next(patience);
  REQUIRE_FALSE(answer);
  CHECK_THAT(answer.error().text, Catch::Contains("wire version " + std::to_string(wire_version + 1)));
}

TEST_CASE("a drain call with a wrong secret fails as disconnected", "[drain]") {
  job running;
  running.target.secret = "another one";
  drain_call call(running.target, {wire_version, {0}, {}});
  const auto answer = call.next(patience);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == error_kind::disconnected);
  CHECK(call.next(0s).error().kind == error_kind::disconnected); // and no further answer
}

namespace {

/// Asks the job for records in this folder, and returns the answer.
expected<records_written> ask_for_records(const job& running, const write_records& request) {
  job_call call(running.target, encode(request), [](const envelope&) -> expected<bool> { return true; });
  const auto answer = call.next(patience);
  return answer ? decode_records_written(*answer) : expected<records_written>(answer.error());
}

} // namespace

TEST_CASE("a request for event records is answered by the launcher, and names its folder", "[records]") {
  job running;
  const auto gatherer =
      running.system.get().spawn([rendezvous = running.service.actor](
                                     record_watcher_actor::pointer) -> record_watcher_actor::behavior_type {
        return {[rendezvous](const records_wanted& wanted) {
          caf::anon_send(rendezvous,
                         records_answered{wanted.link, {"", 2, {"asked for " + wanted.request.folder}, 0}});
        }};
      });
  caf::anon_send(running.service.actor, watch_records{gatherer});
  const auto answer = ask_for_records(running, {wire_version, "/a folder", 0});
  REQUIRE(answer);
  CHECK(*answer == records_written{"", 2, {"asked for /a folder"}, 0});
}

TEST_CASE("a job without a launcher, and another wire version, give no event records", "[records]") {
  const job running;
  const auto answer = ask_for_records(running, {wire_version, "/a folder", 0});
  REQUIRE(answer);
  CHECK_THAT(answer->problem, Catch::Contains("no launcher"));
  const auto refusal = ask_for_records(running, {wire_version + 1, "/a folder", 0});
  REQUIRE_FALSE(refusal);
  CHECK_THAT(refusal.error().text, Catch::Contains("wire version"));
}

namespace {

/// An impostor that listens at the address of the rendezvous.
struct impostor {
  descriptor listener = std::move(*open_listener("127.0.0.1", 0));
  job_target target;

  explicit impostor(std::chrono::nanoseconds connect_timeout)
      : target{"127.0.0.1", port_of(listener), "a secret of a test", connect_timeout} {}

  stranger accept() const {
    pollfd waiting{listener.get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, patience_ms) == 1);
    return stranger{accept_one(listener.get()).socket};
  }
};

/// Of a call that only its connect timeout ends, and of every other call.
constexpr std::chrono::nanoseconds soon = 250ms, late = patience;

struct hostile_answer {
  const char* name;
  std::chrono::nanoseconds connect_timeout;
  /// The impostor's action on the connection, which stays open.
  std::function<void(const impostor&, const stranger&)> act;
  error_kind heard;
  const char* text;
};

/// Completes the handshake with the job's secret and sends these answers.
void answer(const impostor& attacker, const stranger& caller, const std::vector<envelope>& answers) {
  tls_session tls{std::make_shared<const tls_credentials>(attacker.target.secret), tls_side::server};
  shake_hands(caller, tls);
  std::vector<std::byte> framed, wire;
  for (const auto& message : answers)
    append_frame(framed, message.bytes());
  REQUIRE(!tls.seal(framed, wire));
  for (std::span rest{wire}; !rest.empty(); rest = rest.subspan(std::min<std::size_t>(rest.size(), 65536)))
    if (!caller.try_to_say(rest.first(std::min<std::size_t>(rest.size(), 65536))))
      return; // the caller has hung up
}

envelope draining_of(const std::string& problem, bool all_out) {
  draining value{problem, {{1, 11, "a"}}, all_out};
  return encode(address{}, value);
}

const std::vector<hostile_answer> hostile_answers{
    {"silence", soon, [](auto&, auto&) {}, error_kind::disconnected, "no proof of the secret within"},
    {"garbage", late, [](auto&, auto& caller) { caller.say(std::string(100, 'Z')); },
     error_kind::disconnected, "wrong version number"},
    {"the end of the connection, each time", soon,
     [](auto&, auto& caller) { ::shutdown(caller.socket.get(), SHUT_RDWR); }, error_kind::disconnected,
     "the peer hung up"},
    {"half a handshake", soon,
     [](auto& entry, auto& caller) {
       tls_session tls{std::make_shared<const tls_credentials>(entry.target.secret), tls_side::server};
       std::vector<std::byte> wire, plain;
       REQUIRE(caller.ready(POLLIN));
       REQUIRE(!tls.feed(caller.hear(), plain, wire));
       caller.try_to_say(
           std::span{wire}.first(wire.size() / 2)); // the caller may have hung up on a busy machine
     },
     error_kind::disconnected, "no proof of the secret within"},
    {"a handshake with another secret", late,
     [](auto&, auto& caller) {
       tls_session tls{std::make_shared<const tls_credentials>("another secret"), tls_side::server};
       std::vector<std::byte> wire, plain;
       REQUIRE(caller.ready(POLLIN));
       CHECK(tls.feed(caller.hear(), plain, wire));
       caller.say(wire);
     },
     error_kind::disconnected, "secret"},
    {"a message that is no answer", late,
     [](auto& entry, auto& caller) { answer(entry, caller, {encode(address{}, hello{})}); },
     error_kind::precondition, "holds something else"},
    {"a refusal", late,
     [](auto& entry, auto& caller) { answer(entry, caller, {encode(address{}, refused{"go"})}); },
     error_kind::precondition, "go"},
};

/// The error of a drain call whose entry is an impostor that acts like this. No further answer follows.
error error_of(const hostile_answer& row, std::chrono::nanoseconds connect_timeout) {
  const impostor attacker{connect_timeout};
  drain_call call(attacker.target, {wire_version, {1}, {}});
  const auto caller = attacker.accept();
  row.act(attacker, caller);
  const auto heard = call.next(patience);
  REQUIRE_FALSE(heard);
  const auto again = call.next(0s);
  REQUIRE_FALSE(again);
  CHECK(again.error().kind == heard.error().kind);
  CHECK(again.error().text == heard.error().text);
  return heard.error();
}

} // namespace

TEST_CASE("every hostile answer to a drain ends the call with an error that states the reason",
          "[drain][hostile]") {
  for (const hostile_answer& hostile_answer : hostile_answers) {
    DYNAMIC_SECTION(hostile_answer.name) {
      const auto before = open_descriptors();
      auto timeout = hostile_answer.connect_timeout;
      error heard = error_of(hostile_answer, timeout);
      // On a busy machine, a short timeout may pass before the impostor acts.
      while (heard.text.find(hostile_answer.text) == std::string::npos && timeout < 30s)
        heard = error_of(hostile_answer, timeout *= 2);
      CHECK(heard.kind == hostile_answer.heard);
      CHECK_THAT(heard.text, Catch::Contains(hostile_answer.text));
      CHECK(open_descriptors() == before);
    }
  }
}

TEST_CASE("a drain call keeps two answers of a flood, and fails unless the second says that all are out",
          "[drain][hostile]") {
  const impostor attacker{late};
  drain_call call(attacker.target, {wire_version, {1}, {}});
  const auto caller = attacker.accept();
  SECTION("the second answer does not say so") {
    answer(attacker, caller, std::vector<envelope>(20'000, draining_of("", false)));
    REQUIRE(call.next(patience));
    const auto second = call.next(patience);
    REQUIRE_FALSE(second);
    CHECK(second.error().kind == error_kind::precondition);
    CHECK_THAT(second.error().text, Catch::Contains("answered twice"));
  }
  SECTION("the second answer says so") {
    answer(attacker, caller, std::vector<envelope>(20'000, draining_of("", true)));
    REQUIRE(call.next(patience));
    const auto second = call.next(patience);
    REQUIRE(second);
    CHECK(second->all_out);
    CHECK(call.next(0s).error().kind == error_kind::timed_out);
  }
  SECTION("the first answer is a refusal") {
    answer(attacker, caller, std::vector<envelope>(20'000, draining_of("not now", false)));
    const auto first = call.next(patience);
    REQUIRE(first);
    CHECK(first->problem == "not now");
    CHECK(call.next(0s).error().kind == error_kind::timed_out);
  }
  caller.rest(); // the drain call closes the connection
}
