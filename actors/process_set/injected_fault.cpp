#include "actors/process_set/injected_fault.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "actors/interfaces/message_router.hpp"

namespace farandole {

namespace {

// Counts and forwards messages. At the right one, the victim is told to exit before the message is forwarded.
envelope_actor::behavior_type trap(envelope_actor::pointer self, envelope_actor counted,
                                   caf::actor_addr victim, std::shared_ptr<injected_fault> fault) {
  return {
      [self, counted, victim, fault](const envelope& message) {
        if (fault->times > 0 && --fault->message == 0) {
          // Each further fault happens at the very next message.
          fault->message = --fault->times > 0 ? 1 : 0;
          if (auto living = caf::actor_cast<caf::actor>(victim))
            self->send_exit(living, caf::make_error(caf::sec::runtime_error,
                                                    "a fault was injected into the " + fault->actor));
        }
        self->send(counted, message);
      },
  };
}

envelope_actor* route_of(const std::string& actor, set_entered& routes) {
  if (actor == "negotiator")
    return &routes.negotiator;
  if (actor == "address_exchange")
    return &routes.address_exchange;
  if (actor == "relay")
    return &routes.relay;
  if (actor == "set_client")
    return &routes.set_client;
  return actor == "path_connector" ? &routes.connector : nullptr;
}

template <class Number>
bool read_number(std::string_view text, Number& target) {
  auto end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, target);
  return read.ec == std::errc{} && read.ptr == end;
}

bool read_part(std::string_view part, injected_fault& target) {
  auto equals = part.find('=');
  if (equals == std::string_view::npos)
    return false;
  auto key = part.substr(0, equals), value = part.substr(equals + 1);
  if (key == "actor")
    target.actor = value;
  if (key == "at")
    target.at = value;
  return key == "actor" || key == "at" || (key == "set" && read_number(value, target.set)) ||
         (key == "rank" && read_number(value, target.rank)) ||
         (key == "message" && read_number(value, target.message) && target.message > 0) ||
         (key == "times" && read_number(value, target.times));
}

void stand_between(const std::shared_ptr<injected_fault>& fault, caf::actor_system& system,
                   const caf::actor_addr& scheduler, set_entered& routes) {
  auto* counted = route_of(fault->at, routes);
  if (!*counted)
    return;
  const auto victim = fault->actor == "scheduler" ? scheduler : route_of(fault->actor, routes)->address();
  *counted = system.spawn(trap, *counted, victim, fault);
}

expected<std::shared_ptr<injected_fault>> read_fault(std::string_view text) {
  auto fault = std::make_shared<injected_fault>();
  auto good = true;
  for (auto rest = text; good && !rest.empty();) {
    auto comma = std::min(rest.find(','), rest.size());
    good = read_part(rest.substr(0, comma), *fault);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (fault->at.empty())
    fault->at = fault->actor == "scheduler" ? "negotiator" : fault->actor;
  set_entered none;
  good = good && route_of(fault->at, none) && (fault->actor == "scheduler" || route_of(fault->actor, none));
  if (!good)
    return error{error_kind::invalid_argument,
                 "FARANDOLE_TEST_FAULT: \"" + std::string(text) +
                     "\" is no fault; write set=1,rank=0,actor=set_client,message=3"};
  return fault;
}

} // namespace

void inject(const injected_faults& faults, caf::actor_system& system, std::uint32_t set, std::int32_t rank,
            const caf::actor_addr& scheduler, set_entered& routes) {
  for (auto& fault : faults)
    if (fault->set == set && fault->rank == rank && fault->times > 0)
      stand_between(fault, system, scheduler, routes);
}

expected<injected_faults> read_faults(std::string_view text) {
  injected_faults faults;
  while (!text.empty()) {
    auto end = std::min(text.find(';'), text.size());
    auto fault = read_fault(text.substr(0, end));
    if (!fault)
      return fault.error();
    faults.push_back(std::move(*fault));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return faults;
}

} // namespace farandole
