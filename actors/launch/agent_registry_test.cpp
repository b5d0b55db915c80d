// The commands of the placer, by which an agent registry gets agents started.
#include <catch2/catch.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <span>

#include "actors/launch/agent.hpp"
#include "actors/launch/agent_testing.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("the end of a host's earlier command does not disturb the start of its next agent",
          "[agent registry]") {
  event_log log;
  const temporary_folder folder;
  const auto file = folder.file("process");
  placer place;
  place.name = "ssh";
  place.command = [&file, count = 0](std::span<const std::string>, std::uint16_t) mutable {
    // The second command ends the first, waits until the launcher has seen that, and fails.
    const auto script = ++count == 1 ? "echo $$ >$1; exec sleep 60"
                                     : "until test -s $1; do sleep 0.01; done; kill $(cat $1);"
                                       "while kill -0 $(cat $1) 2>/dev/null; do sleep 0.01; done; exit 7";
    return std::vector<std::string>{"sh", "-c", script, "sh", file};
  };
  launcher_side launcher(log, {}, place);
  {
    host_side host(log, launcher.port);
    REQUIRE(log.wait_for("connected b"));
    caf::anon_send(launcher.registry, hosts_wanted{});
    REQUIRE(log.wait_for("agent finished: ."));
  }
  caf::anon_send(launcher.registry, hosts_wanted{{"b"}});
  CHECK(log.wait_for("unusable b: ssh exited with code 7"));
  CHECK_FALSE(log.holds("was killed by signal"));
}

TEST_CASE("a placer that takes all hosts starts their agents by one command, whose end fails all of them",
          "[agent registry]") {
  event_log log;
  placer place;
  place.name = "srun";
  place.takes_all_hosts = true;
  place.secret_variable = "SECRET";
  place.command = [&log](std::span<const std::string> hosts, std::uint16_t port) {
    std::string names;
    for (const auto& host : hosts)
      names += " " + host;
    log.add("command for" + names + (port > 0 ? "" : " without a port"));
    return std::vector<std::string>{"sh", "-c", "test \"$SECRET\" = 'a secret of a test' && exit 3; exit 4"};
  };
  launcher_side launcher(log, {}, place, {"b", "c"});
  CHECK(log.wait_for("command for b c"));
  CHECK(log.wait_for("unusable b: srun exited with code 3"));
  CHECK(log.wait_for("unusable c: srun exited with code 3"));
}

TEST_CASE("the secret goes through the standard input of a placer's command, one for each host",
          "[agent registry]") {
  event_log log;
  placer place;
  place.name = "ssh";
  place.command = [](std::span<const std::string> hosts, std::uint16_t) {
    const auto script = "read line; test \"$line\" = 'a secret of a test' && test $1 = b && exit 5; exit 6";
    return std::vector<std::string>{"sh", "-c", script, "sh", hosts.front()};
  };
  launcher_side launcher(log, {}, place, {"b", "c"});
  CHECK(log.wait_for("unusable b: ssh exited with code 5"));
  CHECK(log.wait_for("unusable c: ssh exited with code 6"));
}

TEST_CASE("a host that cannot reach the launcher gets a command that forwards ports, and is told which",
          "[agent registry]") {
  event_log log;
  placer place;
  place.name = "ssh";
  place.command = [&log](std::span<const std::string>, std::uint16_t) {
    log.add("first command");
    return std::vector<std::string>{"sh", "-c", "exit " + std::to_string(launcher_unreachable_code)};
  };
  place.forwarding_command = [&log](const std::string& host, std::span<const forward_target> targets) {
    log.add("forwarding command for " + host);
    std::string script;
    int port = 40001;
    for (const auto& target : targets)
      script += "echo Allocated port " + std::to_string(port++) + " for remote forward to " + target.ip +
                ":" + std::to_string(target.port) + " >&2; ";
    script += "read secret; read ports; test \"$secret, $ports\" = 'a secret of a test, 40001 40002' && exit "
              "5; exit ";
    return std::vector<std::string>{"sh", "-c", script + std::to_string(launcher_unreachable_code)};
  };
  launcher_side launcher(log, {}, place);
  CHECK(log.wait_for("unusable b: ssh exited with code 5"));
  CHECK(log.holds("first command"));
  place.forwarding_command = nullptr;
  launcher_side without_forwarding(log, {}, place, {"c"});
  CHECK(log.wait_for("unusable c: ssh exited with code " + std::to_string(launcher_unreachable_code)));
}

TEST_CASE("512 agents that dial at once are all accepted, and a connected agent is served meanwhile",
          "[agent registry]") {
  event_log log;
  agent_rules rules;
  rules.most_others = 513;
  launcher_side launcher(log, rules);
  const host_side first(log, launcher.port);
  REQUIRE(log.wait_for("connected b"));
  // All come from one address, as they do behind NAT. The launcher closes connections that exceed its limits, and their
  // agents try again.
  loop_system others;
  std::vector<agent_actor> agents;
  for (int number = 0; number < 512; ++number) {
    agent_spec spec = agent_spec_of("h" + std::to_string(number) + ".", others, launcher_side::links());
    spec.launcher = {{"127.0.0.1", launcher.port}};
    spec.links.connect_timeout = patience;
    spec.finished = [](const std::string&) {};
    spec.waits_for_launcher = true;
    agents.push_back(others.get().spawn(agent, spec));
    caf::anon_send(agents.back(), start_atom::value);
  }
  launcher.start(1, "echo served");
  CHECK(log.wait_for("1 wrote 0 served"));
  for (int number = 0; number < 512; ++number)
    REQUIRE(log.wait_for("connected h" + std::to_string(number) + "."));
  for (const auto& each : agents)
    caf::anon_send(each, interrupt_atom::value, SIGINT);
}
