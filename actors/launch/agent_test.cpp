// An agent and a launcher's agent registry, each on its own event loop, connected by real links.
#include <catch2/catch.hpp>

#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "actors/launch/agent_actor.hpp"
#include "actors/launch/agent_registry.hpp"
#include "actors/launch/hands.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

constexpr std::chrono::seconds patience{30}; // a test that hangs fails after this time

/// Events that actors report and the test waits for, in any order.
class event_log {
public:
  void add(std::string text) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(text));
    changed_.notify_all();
  }
  bool wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return holds(part); });
  }

private:
  bool holds(const std::string& part) const {
    for (const auto& event : events_)
      if (event.find(part) != std::string::npos)
        return true;
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
};

/// Output of a worker: collected, with back-pressure at the test's request.
class test_sink final : public output_sink {
public:
  test_sink(event_log& log, std::string name) : log_(log), name_(std::move(name)) {}

  void write(int stream, std::string_view bytes) override {
    text_[stream] += bytes;
    log_.add(name_ + " wrote " + std::to_string(stream) + " " + std::string(bytes));
  }
  void end(int stream) override {
    log_.add(name_ + " ended " + std::to_string(stream) + " after " + std::to_string(text_[stream].size()));
  }
  bool full(int) const override { return false; }
  void when_there_is_room(int, std::function<void()> action) override { action(); }
  std::deque<std::string> last_lines() const override { return {text_[1]}; }

private:
  event_log& log_;
  std::string name_;
  std::string text_[output_streams];
};

/// The launcher's side.
struct launcher_side {
  event_log& log;
  loop_system system;
  agent_registry_actor registry;
  std::uint16_t port = 0;

  explicit launcher_side(event_log& events, agent_rules rules = {}) : log(events) {
    agent_registry_spec spec;
    spec.rules = std::move(rules);
    spec.slots = real_slots(system.get());
    registry = system.get().spawn(agent_registry, spec);
    auto opened = listen(system.get(), std::vector<std::string>{"127.0.0.1"}, 0,
                         caf::actor_cast<caf::actor>(registry), links());
    REQUIRE(opened);
    port = opened->front().port;
    caf::anon_send(registry, opened->front());
    auto watcher =
        system.get().spawn([this](host_watcher_actor::pointer) -> host_watcher_actor::behavior_type {
          return {
              [this](const host_connected& event) { log.add("connected " + event.host); },
              [this](const host_unusable& event) { log.add("unusable " + event.host + ": " + event.cause); },
              [this](const host_leaves& event) { log.add("leaves " + event.host); },
          };
        });
    caf::anon_send(registry, watch_hosts{watcher});
    caf::anon_send(registry, hosts_wanted{{"b"}});
  }
  ~launcher_side() { caf::anon_send(registry, close_atom::value); }

  static link_settings links(const std::string& secret = "a secret of a test") {
    link_settings settings;
    settings.credentials = std::make_shared<const tls_credentials>(secret);
    return settings;
  }

  /// Starts `sh -c script` on host b.
  far_slot_actor start(std::int32_t number, const std::string& script, const std::string& directory = {},
                       bool has_channel = false) {
    far_slot_spec spec;
    spec.slot.slot = number;
    spec.slot.agent = "b";
    spec.slot.process.arguments = {"sh", "-c", script};
    spec.slot.process.environment = {"GREETING=hello"};
    spec.slot.process.directory = directory;
    if (has_channel)
      spec.slot.process.channel_variable = "CHANNEL";
    spec.slot.linger = std::chrono::nanoseconds(0);
    spec.slot.warn = [this](const std::string& text) { log.add("warning: " + text); };
    const auto name = std::to_string(number);
    spec.slot.started = [this, name](pid_t) { log.add(name + " started"); };
    spec.window_bytes = 4096;
    spec.sink = std::make_shared<test_sink>(log, name);
    spec.agents = registry;
    auto owner = system.get().spawn([this, name](
                                        slot_owner_actor::pointer self) -> slot_owner_actor::behavior_type {
      return {
          [this, name](const slot_ended& event) {
            log.add(name + " ended: " + (event.failure.empty() ? event.exit_status.text() : event.failure));
          },
          [this, name, self](const slot_finished&) {
            log.add(name + " finished");
            self->quit();
          },
      };
    });
    const auto made = system.get().spawn(far_slot, spec, owner);
    caf::anon_send(made, start_atom::value);
    return made;
  }
};

/// The side of host b.
struct host_side {
  event_log& log;
  loop_system system;
  agent_actor actor;

  host_side(event_log& events, std::uint16_t port, const std::string& host = "b",
            const std::string& secret = "a secret of a test")
      : log(events) {
    agent_spec spec;
    // Nothing listens at the first address; the agent tries both at once.
    spec.launcher = {{"127.0.0.2", port}, {"127.0.0.1", port}};
    spec.hello.version = "1";
    spec.hello.program = "agent_test";
    spec.hello.host = host;
    spec.hello.machine = "machine";
    spec.links = launcher_side::links(secret);
    spec.environment = {"PATH=/usr/bin:/bin", "GREETING=own", "OWN=kept"};
    spec.own_variables = {"SECRET_FD=99"};
    spec.slots = real_slots(system.get());
    spec.own_address_towards = [](const std::string& ip) { return ip; };
    spec.finished = [this](const std::string& problem) { log.add("agent finished: " + problem + "."); };
    actor = system.get().spawn(agent, spec);
    caf::anon_send(actor, start_atom::value);
  }
  ~host_side() { caf::anon_send(actor, interrupt_atom::value, SIGINT); }
};

} // namespace

TEST_CASE("a worker on another host runs in the agent's environment with the launcher's variables",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  launcher.start(3, "echo $GREETING $OWN $SECRET_FD $(pwd); echo oops >&2; exit 3", "/tmp");
  CHECK(log.wait_for("3 wrote 0 hello kept 99 /tmp\n"));
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

TEST_CASE("bytes for the channel of a worker arrive there, and its answer arrives at the launcher",
          "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  const auto slot =
      launcher.start(1, "echo ready; exec bash -c 'head -c 300000 <&$CHANNEL | wc -c >&$CHANNEL'", {}, true);
  REQUIRE(log.wait_for("1 wrote 0 ready"));
  auto owner = launcher.system.get().spawn(
      [&log,
       taken = std::size_t{0}](input_owner_actor::pointer self) mutable -> input_owner_actor::behavior_type {
        return {[&log, taken, self](const slot_input_taken& event) mutable {
          taken += event.bytes;
          if (taken == 300000) {
            log.add("all taken");
            self->quit();
          }
        }};
      });
  for (int i = 0; i < 3; ++i)
    caf::anon_send(slot, slot_input{std::string(100000, 'x'), owner});
  CHECK(log.wait_for("1 wrote 2 300000"));
  CHECK(log.wait_for("all taken"));
  CHECK(log.wait_for("1 finished"));
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

TEST_CASE("an agent with another secret does not reach the launcher", "[agent]") {
  event_log log;
  launcher_side launcher(log);
  host_side host(log, launcher.port, "b", "another secret");
  CHECK(log.wait_for("agent finished: the launcher cannot be reached"));
}
