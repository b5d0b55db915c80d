#include "actors/launch/address_tester.hpp"

#include <algorithm>

namespace farandole {

address_tester_actor::behavior_type
address_tester(address_tester_actor::stateful_pointer<address_tester_state> self,
               const address_tester_spec& spec) {
  return self->state.begin(spec);
}

address_tester_actor::behavior_type address_tester_state::begin(const address_tester_spec& spec) {
  spec_ = spec;
  // The launcher reports failures, and links that the end of the test interrupts are none.
  spec_.links.log = nullptr;
  return {
      [this](const link_opened& event) {
        caf::anon_send(event.handle, close_atom::value);
        if (!event.accepted)
          dialled(event.link, {});
      },
      [](const link_received&) {},
      [this](const link_closed& event) { dialled(event.link, event.reason); },
      [this](const address_test& request) { test(request); },
      [this](close_atom) { self_->quit(); },
      [this](overdue_atom) {
        if (now(self_) >= expires_)
          self_->quit();
      },
  };
}

void address_tester_state::test(const address_test& request) {
  address_report report;
  for (auto listener = listeners_.begin(); listener != listeners_.end();)
    if (std::ranges::find(request.listen, listener->first) != request.listen.end()) {
      ++listener;
    } else {
      if (listener->second)
        caf::anon_send(listener->second, close_atom::value);
      listener = listeners_.erase(listener);
    }
  for (const auto& ip : request.listen)
    if (!listeners_.contains(ip))
      report.listening.push_back(listen_at(ip));
  const std::chrono::milliseconds timeout(request.timeout_ms);
  auto links = spec_.links;
  links.connect_timeout = timeout;
  links.connect_timeout_setting = std::to_string(request.timeout_ms) + " ms";
  for (const auto& address : request.dial)
    if (dialled_.emplace(address.address, address.port).second) {
      dialling_[++last_] = {address.address, address.port};
      dial(self_->system(), address.address, address.port, caf::actor_cast<caf::actor>(self_), last_, links);
    }
  // The launcher ends a test after this time, unless it has ended itself.
  expires_ = now(self_) + 4 * timeout;
  self_->delayed_send(self_, 4 * timeout, overdue_atom::value);
  if (!report.listening.empty())
    spec_.report(report);
}

tested_address address_tester_state::listen_at(const std::string& ip) {
  const auto opened = listen(self_->system(), ip, 0, caf::actor_cast<caf::actor>(self_), spec_.links);
  listeners_[ip] = opened ? opened->handle : caf::actor();
  if (!opened)
    return {ip, 0, opened.error().text};
  return {ip, opened->port};
}

/// A dialled link has opened, or failed for this reason. The later end of a link that has opened means nothing.
void address_tester_state::dialled(link_id link, const std::string& problem) {
  const auto found = dialling_.extract(link);
  if (!found)
    return;
  auto address = found.mapped();
  address.problem = problem;
  spec_.report({{}, {std::move(address)}});
}

} // namespace farandole
