#include "actors/launch/reach_checker.hpp"

#include <utility>

namespace farandole {

reach_checker_actor::behavior_type
reach_checker(reach_checker_actor::stateful_pointer<reach_checker_state> self,
              const reach_checker_spec& spec) {
  return self->state.begin(spec);
}

reach_checker_actor::behavior_type reach_checker_state::begin(const reach_checker_spec& spec) {
  spec_ = spec;
  check_.emplace(spec_.hosts, spec_.timeout);
  return {
      [](const host_connected&) {},
      [this](const host_unusable& event) {
        spec_.say("farandole: host " + event.host + " was lost: " + event.cause);
        finish(event.code);
      },
      [](const host_leaves&) {}, // its agent ends, and the registry reports that
      [this](const host_report& event) { follow(check_->reported(event.host, event.report, now(self_))); },
      [this](start_atom) { start(); },
      [this](interrupt_atom, int signal) { finish(128 + signal); },
      [this](due_atom) { follow(check_->due(now(self_))); },
  };
}

void reach_checker_state::start() {
  const auto me = caf::actor_cast<reach_checker_actor>(self_);
  if (!spec_.own_host.empty())
    own_ = self_->spawn<caf::linked>(
        address_tester, address_tester_spec{spec_.links, [me, host = spec_.own_host](const auto& report) {
                                              caf::anon_send(me, host_report{host, report});
                                            }});
  self_->send(spec_.agents, watch_hosts{me});
  follow(check_->begin(now(self_)));
}

void reach_checker_state::follow(const reach_check::step& step) {
  for (const auto& [host, request] : step.requests)
    send(host, request);
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
  if (step.complete)
    finish(0);
}

void reach_checker_state::send(const std::string& host, const address_test& request) {
  if (host == spec_.own_host)
    self_->send(own_, request);
  else
    self_->send(spec_.agents, host_test{host, request, caf::actor_cast<reach_watcher_actor>(self_)});
}

void reach_checker_state::finish(int code) {
  if (!spec_.finished)
    return;
  if (own_)
    self_->send(own_, close_atom::value);
  std::exchange(spec_.finished, nullptr)(code, check_->attempts());
  self_->quit();
}

} // namespace farandole
