// Commands that programs of the user run on hosts, through the launcher and real agents.
#include <catch2/catch.hpp>

#include <signal.h>
#include <sys/socket.h>

#include <utility>

#include "actors/event_loop/pipe_testing.hpp"
#include "actors/launch/agent_testing.hpp"
#include "actors/launch/remote_command.hpp"
#include "actors/launch/remote_command_actor.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// The reading end of a pipe that holds this text and is closed.
descriptor pipe_with(const std::string& text) {
  pipe_ends ends;
  ends.put(text);
  return std::move(ends.read);
}

/// A program of the user that runs `sh -c script` on a host, with this as its whole standard input.
struct program_side {
  event_log& log;
  descriptor text_end;
  input_reader reader;
  loop_system system;
  standard_input_actor input;
  remote_command_actor actor;

  program_side(event_log& events, std::uint16_t port, const std::string& host, const std::string& script,
               const std::string& text = {})
      : log(events), text_end(pipe_with(text)), reader(text_end.get()) {
    remote_command_spec spec;
    spec.ip = "127.0.0.1";
    spec.port = port;
    spec.links = launcher_side::links();
    spec.links.connect_timeout = 2 * patience;
    spec.host = host;
    spec.slot.process.arguments = {"sh", "-c", script};
    spec.slot.process.keeps_input = true;
    spec.slot.linger = std::chrono::nanoseconds(0);
    spec.window_bytes = 4096;
    spec.sink = std::make_shared<test_sink>(log, "command");
    input = spec.input = system.get().spawn(standard_input, &reader);
    reader.start([to = input](std::string bytes) { caf::anon_send(to, input_read{std::move(bytes)}); });
    spec.finished = [this](int code, const std::string& problem) {
      log.add("command: " + std::to_string(code) + " " + problem + ".");
    };
    actor = system.get().spawn(remote_command, spec);
    actor->attach_functor([this] { log.add("the actor of the command has ended"); });
    caf::anon_send(actor, start_atom::value);
  }
  ~program_side() {
    reader.stop();
    caf::anon_send(input, close_atom::value);
    caf::anon_send(actor, interrupt_atom::value, SIGTERM);
  }
};

} // namespace

TEST_CASE("a command on a host has the program's streams and returns its exit code", "[remote command]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  program_side program(log, launcher.port, "b", "wc -c; echo bad >&2; exit 7", std::string(3000, 'x'));
  CHECK(log.wait_for("command wrote 0 3000"));
  CHECK(log.wait_for("command wrote 1 bad"));
  CHECK(log.wait_for("command: 7 ."));
}

TEST_CASE("a command on a host receives the program's signals", "[remote command]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  program_side program(log, launcher.port, "b",
                       "trap 'echo got; exit 3' INT; echo ready; while :; do sleep 0.01; done");
  REQUIRE(log.wait_for("command wrote 0 ready"));
  caf::anon_send(program.actor, interrupt_atom::value, SIGINT);
  CHECK(log.wait_for("command: 3 ."));
}

TEST_CASE("a command for a host without an agent is refused with the names of those that have one",
          "[remote command]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  program_side program(log, launcher.port, "x", "true");
  CHECK(log.wait_for("command: 255 host x has no agent in this job; these have one: b."));
}

TEST_CASE("a command that is not there fails as in a shell, and does not disturb the workers",
          "[remote command]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  const auto worker = launcher.start(1, "echo ready; exec sleep 60");
  REQUIRE(log.wait_for("1 wrote 0 ready"));
  program_side program(log, launcher.port, "b", "no-such-program-anywhere");
  CHECK(log.wait_for("command: 127 ."));
  caf::anon_send(worker, signal_atom::value, SIGTERM);
  CHECK(log.wait_for("1 ended: was killed by signal 15"));
}

TEST_CASE("a command ends with its job", "[remote command]") {
  event_log log;
  auto launcher = std::make_unique<launcher_side>(log);
  host_side host(log, launcher->port);
  REQUIRE(log.wait_for("connected b"));
  program_side program(log, launcher->port, "b", "echo ready; exec sleep 60");
  REQUIRE(log.wait_for("command wrote 0 ready"));
  launcher.reset();
  CHECK(log.wait_for("command: 255 the job has ended."));
  CHECK(log.in_order("command ended 0", "command: 255")); // the output is not used after the end
  CHECK(log.wait_for("agent finished: ."));               // so no process of the command is left
}

TEST_CASE("a signal ends a command whose launcher does not answer", "[remote command]") {
  event_log log;
  const port_holder silent;
  REQUIRE(::listen(silent.socket.get(), 1) == 0);
  program_side program(log, silent.port, "b", "true");
  caf::anon_send(program.actor, interrupt_atom::value, SIGINT);
  CHECK(log.wait_for("command: 130 the command has not started."));
  CHECK(log.wait_for("the actor of the command has ended"));
}

TEST_CASE("the agent and the job end after a program that was killed while its command waits for credit",
          "[remote command]") {
  event_log log;
  auto launcher = std::make_unique<launcher_side>(log);
  host_side host(log, launcher->port);
  REQUIRE(log.wait_for("connected b"));
  play(*launcher, encode(command_request{wire_version, "b"}),
       [&log](const caf::actor& link, const envelope& message) {
         if (const auto acceptance = decode_command_accepted(message))
           return caf::anon_send(link, encode(start_request{acceptance->number, {"yes"}, {}, "", 4096}));
         if (!decode_process_output(message))
           return;
         log.add("killed");
         caf::anon_send(link, cut_atom::value);
       });
  REQUIRE(log.wait_for("killed"));
  launcher.reset();
  CHECK(log.wait_for("agent finished: ."));
}

TEST_CASE("a command may write more than a window while its host leaves", "[remote command]") {
  event_log log;
  agent_rules elastic;
  elastic.retries = true;
  launcher_side launcher(log, elastic);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  program_side program(
      log, launcher.port, "b",
      "trap 'head -c 100000 /dev/zero; exit 9' TERM; echo ready; while :; do sleep 0.01; done");
  REQUIRE(log.wait_for("command wrote 0 ready"));
  caf::anon_send(host.actor, interrupt_atom::value, SIGTERM);
  CHECK(log.wait_for("command: 9 ."));
  CHECK(log.holds("command ended 0 after 100006"));
  CHECK(log.wait_for("agent finished: ."));
}

TEST_CASE("a command ends when its host is lost while it leaves", "[remote command]") {
  event_log log;
  agent_rules elastic;
  elastic.retries = true;
  launcher_side launcher(log, elastic);
  agent_hello hello;
  hello.host = "b";
  play(launcher, encode(hello), [](const caf::actor& link, const envelope& message) {
    if (decode_start_request(message))
      caf::anon_send(link, host_leaving_message());
    else if (message.kind() == wire::Envelope::Body::LEAVE_HOST)
      caf::anon_send(link, cut_atom::value);
  });
  REQUIRE(log.wait_for("connected b"));
  program_side program(log, launcher.port, "b", "true");
  CHECK(log.wait_for("command: 255 host b was lost: "));
}

TEST_CASE("a command ends when its host is lost, and when its program is gone", "[remote command]") {
  event_log log;
  launcher_side launcher(log);
  auto host = std::make_unique<host_side>(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  {
    program_side program(log, launcher.port, "b", "echo first; exec sleep 60");
    REQUIRE(log.wait_for("command wrote 0 first"));
  } // a second signal is not needed: the command does not catch the first
  program_side program(log, launcher.port, "b", "echo second; exec sleep 60");
  REQUIRE(log.wait_for("command wrote 0 second"));
  host.reset();
  CHECK(log.wait_for("command: 255 host b was lost: "));
}
