// Helpers for tests of agents and of the launcher's agent registry, each on its own event loop, connected by real links.
#pragma once

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/launch/agent_actor.hpp"
#include "actors/launch/agent_registry.hpp"
#include "actors/launch/hands.hpp"
#include "tests/patience.hpp"

namespace farandole::testing {

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
    return changed_.wait_for(lock, patience, [&] { return first_of(part) != events_.end(); });
  }
  bool holds(const std::string& part) {
    std::lock_guard lock(mutex_);
    return first_of(part) != events_.end();
  }
  /// Whether both have happened, in this order.
  bool in_order(const std::string& earlier, const std::string& later) {
    std::lock_guard lock(mutex_);
    return first_of(earlier) < first_of(later) && first_of(later) != events_.end();
  }

private:
  std::vector<std::string>::const_iterator first_of(const std::string& part) const {
    return std::find_if(events_.begin(), events_.end(),
                        [&](const std::string& event) { return event.find(part) != std::string::npos; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
};

/// Output of a worker: collected. If `is_read` is false, it is full from the first byte on.
class test_sink final : public output_sink {
public:
  test_sink(event_log& log, std::string name, bool is_read = true)
      : log_(log), name_(std::move(name)), is_read_(is_read) {}

  void write(int stream, std::string_view bytes) override {
    text_[stream] += bytes;
    log_.add(name_ + " wrote " + std::to_string(stream) + " " + std::string(bytes));
  }
  void end(int stream) override {
    log_.add(name_ + " ended " + std::to_string(stream) + " after " + std::to_string(text_[stream].size()));
  }
  bool full(int) const override { return !is_read_; }
  void when_there_is_room(int, std::function<void()> action) override {
    if (is_read_)
      action();
  }
  std::deque<std::string> last_lines() const override { return {text_[1]}; }

private:
  event_log& log_;
  std::string name_;
  bool is_read_;
  std::string text_[output_streams];
};

/// The launcher's side.
struct launcher_side {
  event_log& log;
  loop_system system;
  agent_registry_actor registry;
  std::uint16_t port = 0;
  bool reads_output = true; ///< of the workers that are started from now on

  explicit launcher_side(event_log& events, agent_rules rules = {}, placer place = {},
                         std::vector<std::string> wanted = {"b"}, std::uint16_t wanted_port = 0)
      : log(events) {
    agent_registry_spec spec;
    spec.rules = std::move(rules);
    spec.slots = real_slots(system.get());
    spec.place = std::move(place);
    spec.secret = "a secret of a test";
    spec.ip = "127.0.0.1";
    spec.rendezvous = {"127.0.0.1", 4711};
    spec.environment = {"PATH=/usr/bin:/bin", "SECRET=of another job"};
    spec.leave_timeout = 2 * patience; // agents leave by themselves
    registry = system.get().spawn(agent_registry, spec);
    auto opened = listen(system.get(), std::vector<std::string>{"127.0.0.1"}, wanted_port,
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
    caf::anon_send(registry, hosts_wanted{std::move(wanted)});
  }
  ~launcher_side() { caf::anon_send(registry, close_atom::value); }

  static link_settings links(const std::string& secret = "a secret of a test") {
    link_settings settings;
    settings.credentials = std::make_shared<const tls_credentials>(secret);
    return settings;
  }

  /// Starts `sh -c script` on host b.
  far_slot_actor start(std::int32_t number, const std::string& script, const std::string& directory = {},
                       bool has_channel = false, bool keeps_input = false) {
    far_slot_spec spec;
    spec.slot.slot = number;
    spec.slot.agent = "b";
    spec.slot.process.arguments = {"sh", "-c", script};
    spec.slot.process.environment = {"GREETING=hello"};
    spec.slot.process.directory = directory;
    if (has_channel)
      spec.slot.process.channel_variable = "CHANNEL";
    spec.slot.process.keeps_input = keeps_input;
    spec.slot.linger = std::chrono::nanoseconds(0);
    spec.slot.warn = [this](const std::string& text) { log.add("warning: " + text); };
    const auto name = std::to_string(number);
    spec.slot.started = [this, name](pid_t) { log.add(name + " started"); };
    spec.window_bytes = 4096;
    spec.sink = std::make_shared<test_sink>(log, name, reads_output);
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

/// The settings that the agents of all tests share, for a host of this name.
inline agent_spec agent_spec_of(const std::string& host, loop_system& system, const link_settings& links) {
  agent_spec spec;
  spec.hello.version = "1";
  spec.hello.program = "agent_test";
  spec.hello.host = host;
  spec.hello.machine = "machine of " + host;
  spec.links = links;
  spec.slots = real_slots(system.get());
  spec.own_address_towards = [](const std::string& ip) { return ip; };
  spec.times.kill_after = patience;
  return spec;
}

/// The side of host b.
struct host_side {
  event_log& log;
  loop_system system;
  agent_actor actor;

  host_side(event_log& events, std::uint16_t port, const std::string& host = "b",
            const std::string& secret = "a secret of a test", bool waits = true,
            bool ends_with_worker = false)
      : log(events) {
    agent_spec spec = agent_spec_of(host, system, launcher_side::links(secret));
    // Nothing listens at the first address; the agent tries both at once.
    spec.launcher = {{"127.0.0.2", port}, {"127.0.0.1", port}};
    spec.environment = {"PATH=/usr/bin:/bin", "GREETING=own", "OWN=kept"};
    spec.own_variables = {"SECRET_FD=99"};
    spec.finished = [this](const std::string& problem) { log.add("agent finished: " + problem + "."); };
    spec.waits_for_launcher = waits;
    if (ends_with_worker)
      spec.worker_failed = [this] { log.add("agent ends with its worker"); };
    spec.unreachable = [this] { log.add("agent cannot reach the launcher"); };
    spec.warn = [this](const std::string& notice) { log.add("agent warns: " + notice); };
    actor = system.get().spawn(agent, spec);
    caf::anon_send(actor, start_atom::value);
  }
  ~host_side() { caf::anon_send(actor, interrupt_atom::value, SIGINT); }
};

/// Another process at the launcher's port, played by the test: it sends `first`, and `receive` handles the messages that arrive.
/// It ends with its link.
inline void play(launcher_side& launcher, const envelope& first,
                 const std::function<void(const caf::actor& link, const envelope& message)>& receive) {
  launcher.system.get().spawn([=, port = launcher.port](caf::event_based_actor* self) -> caf::behavior {
    dial(self->system(), "127.0.0.1", port, caf::actor_cast<caf::actor>(self), 1, launcher_side::links());
    const auto link = std::make_shared<caf::actor>();
    return {
        [=](const link_opened& event) {
          *link = event.handle;
          caf::anon_send(*link, first);
        },
        [=](const link_received& event) { receive(*link, event.message); },
        [=](const link_closed&) { self->quit(); },
    };
  });
}

/// A socket of 127.0.0.1 that holds a port.
struct port_holder {
  descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  port_holder() {
    const int yes = 1;
    REQUIRE(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }
};

} // namespace farandole::testing
