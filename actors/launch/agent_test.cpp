// An agent and a launcher's agent registry, each on its own event loop, connected by real links.
#include <catch2/catch.hpp>

#include <signal.h>

#include "actors/launch/agent_testing.hpp"
#include "messages/wire/membership.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("a worker on another host runs in the agent's environment with the launcher's variables",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(
      3,
      "echo $GREETING $OWN $SECRET_FD $(pwd) $(readlink /proc/$$/fd/${FARANDOLE_RECORDER_FD:-none}); "
      "echo oops >&2; exit 3",
      "/tmp");
  CHECK(log.wait_for("3 wrote 0 hello kept 99 /tmp /memfd:farandole-events (deleted)\n"));
  CHECK(log.wait_for("3 wrote 1 oops"));
  CHECK(log.wait_for("3 ended: exited with code 3"));
  CHECK(log.wait_for("3 finished"));
}

TEST_CASE("output beyond the window arrives completely", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "head -c 3000000 /dev/zero");
  CHECK(log.wait_for("1 ended 0 after 3000000"));
  CHECK(log.wait_for("1 finished"));
}

TEST_CASE("a signal reaches the process group on the other host", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  const auto slot = launcher.start(1, "echo ready; sleep 60 & wait");
  REQUIRE(log.wait_for("ready"));
  caf::anon_send(slot, signal_atom::value, SIGTERM);
  CHECK(log.wait_for("1 ended: was killed by signal 15"));
  CHECK(log.wait_for("1 finished"));
}

TEST_CASE("a command that does not exist and a directory that does not exist are reported", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "exec no-such-program-anywhere", "/no/such/folder");
  CHECK(log.wait_for("warning: host b has no directory /no/such/folder"));
  CHECK(log.wait_for("1 ended: exited with code 127"));
}

/// Logs "all taken" when so many bytes of input were taken.
input_owner_actor input_owner(launcher_side& launcher, std::size_t bytes) {
  return launcher.system.get().spawn(
      [&log = launcher.log, bytes](input_owner_actor::pointer self) -> input_owner_actor::behavior_type {
        return {[&log, bytes, taken = std::size_t{0}, self](const slot_input_taken& event) mutable {
          taken += event.bytes;
          if (taken == bytes) {
            log.add("all taken");
            self->quit();
          }
        }};
      });
}

TEST_CASE("bytes for the channel of a worker arrive there, and its answer arrives at the launcher",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  const auto slot =
      launcher.start(1, "echo ready; exec bash -c 'head -c 300000 <&$CHANNEL | wc -c >&$CHANNEL'", {}, true);
  REQUIRE(log.wait_for("1 wrote 0 ready"));
  const auto owner = input_owner(launcher, 300000);
  for (int i = 0; i < 3; ++i)
    caf::anon_send(slot, slot_input{std::string(100000, 'x'), owner});
  CHECK(log.wait_for("1 wrote 2 300000"));
  CHECK(log.wait_for("all taken"));
  CHECK(log.wait_for("1 finished"));
}

TEST_CASE("bytes and the end of the standard input of a worker arrive there, beside those of its channel",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  const auto slot =
      launcher.start(1, "echo ready; exec bash -c 'wc -c; head -c 5 <&$CHANNEL >&2'", {}, true, true);
  REQUIRE(log.wait_for("1 wrote 0 ready"));
  const auto owner = input_owner(launcher, 300005);
  caf::anon_send(slot, slot_input{"hello", owner});
  for (int i = 0; i < 3; ++i)
    caf::anon_send(slot, slot_input{std::string(100000, 'x'), owner, standard_input_stream, i == 2});
  CHECK(log.wait_for("1 wrote 0 300000"));
  CHECK(log.wait_for("1 wrote 1 hello"));
  CHECK(log.wait_for("all taken"));
  CHECK(log.wait_for("1 finished"));
}

TEST_CASE("the standard input of a worker that does not read it is taken, and that of others is empty",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "wc -c");
  CHECK(log.wait_for("1 wrote 0 0"));
  const auto slot = launcher.start(2, "exec <&-; echo closed; exec sleep 60", {}, false, true);
  REQUIRE(log.wait_for("2 wrote 0 closed"));
  const auto owner = input_owner(launcher, 100000);
  caf::anon_send(slot, slot_input{std::string(100000, 'x'), owner, standard_input_stream});
  CHECK(log.wait_for("all taken"));
  caf::anon_send(slot, signal_atom::value, SIGTERM);
  CHECK(log.wait_for("2 finished"));
}

TEST_CASE("a lost agent ends its slots with the host's name, and leaves no process", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  {
    host_side host(log, launcher.port);
    REQUIRE(log.wait_for("connected b"));
    launcher.start(1, "echo ready; exec sleep 60");
    REQUIRE(log.wait_for("ready"));
  } // the agent's loop waits for the end of its processes
  CHECK(log.wait_for("agent finished: received signal Interrupt."));
  CHECK(log.wait_for("1 ended: "));
  CHECK(log.wait_for("1 finished"));
  CHECK(log.wait_for("unusable b"));
}

TEST_CASE("an agent that ends with its worker stays after a success and after a signal of the launcher",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port, "b", "a secret of a test", false, true);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "true");
  REQUIRE(log.wait_for("1 finished"));
  const auto told = launcher.start(2, "echo ready; exec sleep 60");
  REQUIRE(log.wait_for("ready"));
  caf::anon_send(told, signal_atom::value, SIGTERM);
  REQUIRE(log.wait_for("2 finished"));
  launcher.start(3, "echo last words; exit 3");
  CHECK(log.wait_for("agent finished: the worker exited with code 3."));
  CHECK(log.in_order("3 wrote 0 last words", "3 ended: exited with code 3"));
  CHECK(log.wait_for("3 finished"));
  CHECK(log.in_order("agent ends with its worker", "agent finished: "));
}

TEST_CASE("the end of the launcher ends the agent and its processes", "[agent]") {
  event_log log;
  auto launcher = std::make_unique<launcher_side>(log);
  host_side host(log, launcher->port);
  REQUIRE(log.wait_for("connected b"));
  launcher->start(1, "echo ready; exec sleep 60");
  REQUIRE(log.wait_for("ready"));
  launcher.reset();
  CHECK(log.wait_for("agent finished: ."));
}

TEST_CASE("SIGTERM to an agent without processes lets its host leave", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "true");
  REQUIRE(log.wait_for("1 finished")); // so the agent knows that it is accepted
  caf::anon_send(host.actor, interrupt_atom::value, SIGTERM);
  CHECK(log.wait_for("leaves b"));
  CHECK(log.wait_for("agent finished: ."));
}

TEST_CASE("an agent of an unknown host is refused, and says why", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port, "x");
  CHECK(
      log.wait_for("agent finished: the launcher refused this agent: host x is not one of the job's hosts."));
}

TEST_CASE("an agent of another version is told both versions, and fails its host", "[agent]") {
  event_log log;
  agent_rules rules;
  rules.version = "2.0";
  launcher_side launcher(log, rules);
  agent_hello hello;
  hello.wire_version = wire_version + 1;
  hello.version = "1.0";
  hello.program = "/opt/farandole";
  hello.host = "b";
  hello.machine = "machine";
  play(launcher, encode(hello), [&log](const caf::actor& link, const envelope& message) {
    if (const auto answer = decode_refused(message))
      log.add("refused: " + answer->reason);
    caf::anon_send(link, cut_atom::value);
  });
  const std::string reason =
      "host b has version 1.0 of Farandole (/opt/farandole), and the launcher has version 2.0: "
      "install the same version on all hosts";
  CHECK(log.wait_for("refused: " + reason));
  CHECK(log.wait_for("unusable b: " + reason));
}

TEST_CASE("an agent with another secret does not reach the launcher", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port, "b", "another secret");
  CHECK(log.wait_for("agent finished: the launcher cannot be reached"));
  CHECK_FALSE(log.holds("agent warns: ")); // it does not try again
}

TEST_CASE("an agent that starts before its launcher listens tries again", "[agent]") {
  event_log log;
  const port_holder holder; // does not listen, and leaves the port to a listener
  host_side host(log, holder.port);
  REQUIRE(log.wait_for("agent warns: the launcher cannot be reached; trying again until "));
  launcher_side launcher(log, {}, {}, {"b"}, holder.port);
  CHECK(log.wait_for("connected b"));
}

TEST_CASE("an agent ends although the output of its processes waits for the launcher", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  launcher.reads_output = false;
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(1, "exec yes");
  REQUIRE(log.wait_for("1 wrote 0 y"));
  SECTION("when it receives a signal") {
    caf::anon_send(host.actor, interrupt_atom::value, SIGINT);
    CHECK(log.wait_for("agent finished: received signal Interrupt."));
  }
  SECTION("when its launcher is gone") {
    caf::anon_send(launcher.registry, overdue_atom::value); // cuts all links
    CHECK(log.wait_for("agent finished: the connection to the launcher ended"));
  }
  SECTION("when it receives a signal while it leaves in order") {
    caf::anon_send(host.actor, interrupt_atom::value, SIGTERM);
    REQUIRE(log.wait_for("leaves b"));
    caf::anon_send(host.actor, interrupt_atom::value, SIGINT);
    CHECK(log.wait_for("agent finished: received signal Interrupt."));
  }
}

TEST_CASE("an agent tells a launcher that cannot be reached from one that does not know the secret",
          "[agent]") {
  event_log log;
  const port_holder nothing_listens;
  {
    host_side host(log, nothing_listens.port, "b", "a secret of a test", false);
    CHECK(log.wait_for("agent finished: the launcher cannot be reached"));
    CHECK(log.holds("agent cannot reach the launcher"));
  }
  event_log other_log;
  launcher_side launcher(other_log);
  host_side host(other_log, launcher.port, "b", "another secret of a test", false);
  CHECK(other_log.wait_for("agent finished: the launcher cannot be reached"));
  CHECK_FALSE(other_log.holds("agent cannot reach the launcher"));
}
