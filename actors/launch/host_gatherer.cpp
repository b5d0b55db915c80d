#include "actors/launch/host_gatherer.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

host_gatherer_actor::behavior_type
host_gatherer(host_gatherer_actor::stateful_pointer<host_gatherer_state> self,
              const host_gatherer_spec& spec) {
  return self->state.begin(spec);
}

host_gatherer_actor::behavior_type host_gatherer_state::begin(const host_gatherer_spec& spec) {
  spec_ = spec;
  return {
      [this](const host_connected& event) {
        connected_[event.host] = event.facts;
        failed_.erase(event.host);
        finish_if_complete();
      },
      [this](const host_unusable& event) {
        connected_.erase(event.host);
        failed_[event.host] = event;
        finish_if_complete();
      },
      [](const host_leaves&) {}, // its agent ends, and the registry reports that
      [this](start_atom) { start(); },
      [this](interrupt_atom, int signal) { finish(128 + signal); },
      [this](overdue_atom) { overdue(); },
  };
}

void host_gatherer_state::start() {
  self_->send(spec_.agents, watch_hosts{caf::actor_cast<host_gatherer_actor>(self_)});
  self_->send(spec_.agents, hosts_wanted{spec_.hosts});
  if (spec_.placer.empty())
    self_->delayed_send(self_, spec_.timeout, overdue_atom::value);
}

void host_gatherer_state::finish_if_complete() {
  if (connected_.size() >= spec_.count)
    return finish(0);
  // Every host is given the chance to fail, so that one report names all that must be mended.
  if (spec_.placer.empty() || connected_.size() + failed_.size() < spec_.count)
    return;
  spec_.say("farandole: could not connect to some hosts via " + spec_.placer + ":");
  int code = 1;
  constexpr int not_found_code = 127;
  for (const auto& [host, failure] : failed_) {
    spec_.say("farandole:   host " + host + ": " + failure.cause);
    for (const auto& line : failure.printed)
      spec_.say("farandole:     " + line);
    if (failure.code == not_found_code)
      code = not_found_code;
  }
  if (spec_.timed_out &&
      std::ranges::all_of(failed_, [](const auto& entry) { return entry.second.timed_out; }))
    spec_.timed_out();
  finish(code);
}

void host_gatherer_state::overdue() {
  std::string names;
  for (const auto& [host, facts] : connected_)
    names += (names.empty() ? " (" : ", ") + host;
  spec_.say("farandole: " + std::to_string(connected_.size()) + " of " + std::to_string(spec_.count) +
            " agents have connected" + names + (names.empty() ? "" : ")") + " within " +
            spec_.timeout_setting + "; start the others, or wait longer with --start-timeout");
  if (spec_.timed_out)
    spec_.timed_out();
  finish(1);
}

void host_gatherer_state::finish(int code) {
  if (!spec_.finished)
    return;
  std::exchange(spec_.finished, nullptr)(code, std::move(connected_));
  self_->quit();
}

} // namespace farandole
