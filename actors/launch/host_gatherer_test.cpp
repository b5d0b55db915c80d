#include "actors/launch/host_gatherer.hpp"

#include <catch2/catch.hpp>

#include <future>

#include "actors/event_loop/loop.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using farandole::testing::patience;

namespace {

/// A registry whose hosts fail as soon as the gatherer watches them.
placement_actor::behavior_type failing_hosts(placement_actor::pointer self,
                                             const std::vector<host_unusable>& failures) {
  return {
      [](const hosts_wanted&) {},
      [self, failures](const watch_hosts& event) {
        for (const auto& failure : failures)
          self->send(event.watcher, failure);
        self->quit();
      },
  };
}

struct outcome {
  int code = 0;
  bool timed_out = false;
  std::string text;
};

outcome gather(const std::vector<host_unusable>& failures) {
  outcome found; // written only on the loop before `ended` is set
  std::promise<void> ended;
  loop_system system;
  host_gatherer_spec spec;
  for (const auto& failure : failures)
    spec.hosts.push_back(failure.host);
  spec.count = failures.size();
  spec.placer = "ssh";
  spec.agents = system.get().spawn(failing_hosts, failures);
  spec.say = [&found](const std::string& line) { found.text += line + "\n"; };
  spec.timed_out = [&found] { found.timed_out = true; };
  spec.finished = [&](int code, const std::map<std::string, agent_hello>&) {
    found.code = code;
    ended.set_value();
  };
  caf::anon_send(system.get().spawn(host_gatherer, spec), start_atom::value);
  REQUIRE(ended.get_future().wait_for(patience) == std::future_status::ready);
  return found;
}

const host_unusable late{"b", "its agent has not connected", 1, false, true, {"a greeting"}};
const host_unusable refusing{"c", "ssh exited with code 255", 255, false, false, {}};
const host_unusable without_program{"d", "ssh exited with code 127", 127, false, false, {}};

} // namespace

TEST_CASE("hosts that fail are reported with what their commands printed", "[launch]") {
  const auto found = gather({late, refusing});
  CHECK(found.code == 1);
  CHECK(found.text == "farandole: could not connect to some hosts via ssh:\n"
                      "farandole:   host b: its agent has not connected\n"
                      "farandole:     a greeting\n"
                      "farandole:   host c: ssh exited with code 255\n");
  CHECK(gather({refusing, without_program}).code == 127);
}

TEST_CASE("a wait that fails only because agents are late is told from other failures", "[launch]") {
  CHECK(gather({late}).timed_out);
  CHECK_FALSE(gather({refusing}).timed_out);
  CHECK_FALSE(gather({late, refusing}).timed_out);
}
