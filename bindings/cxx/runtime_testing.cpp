#include "bindings/cxx/runtime_testing.hpp"

#include <utility>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"

namespace farandole {

struct job::service {
  loop_system system;
  rendezvous_actor rendezvous;
};

job::job(const membership_rules& rules, std::map<std::string, std::string> extra,
         const handshake_limits& handshakes)
    : size_(rules.size), extra_(std::move(extra)), service_(std::make_unique<service>()) {
  rendezvous_options options;
  options.members = rules;
  options.links.credentials = std::make_shared<const tls_credentials>(secret);
  options.links.handshakes = handshakes;
  auto begun = start_rendezvous(service_->system.get(), options);
  REQUIRE(begun);
  service_->rendezvous = begun->actor;
  port_ = begun->port;
}

job::~job() {
  caf::anon_send(service_->rendezvous, close_atom::value);
}

void job::started(std::int32_t slot) const {
  caf::anon_send(service_->rendezvous, slot_started{slot});
}

void job::exited(std::int32_t slot, const std::string& manner) const {
  caf::anon_send(service_->rendezvous, slot_exited{slot, manner});
}

void job::retired(std::int32_t slot) const {
  caf::anon_send(service_->rendezvous, slot_retired{slot});
}

} // namespace farandole
