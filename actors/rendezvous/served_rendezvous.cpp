#include "actors/rendezvous/served_rendezvous.hpp"

#include "actors/event_loop/log.hpp"
#include "actors/event_loop/loop.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "actors/rendezvous/this_host.hpp"

namespace farandole {

/// Destroyed in reverse order: the loop ends before the logger that its actors use.
struct served_rendezvous::parts {
  explicit parts(const settings& values) : log(log_options_of(values)) {}

  logger log;
  loop_system system;
  rendezvous_actor actor;
};

served_rendezvous::served_rendezvous() = default;

expected<std::unique_ptr<served_rendezvous>> served_rendezvous::start(const settings& values,
                                                                      std::int32_t size,
                                                                      const std::vector<std::string>& ips,
                                                                      const std::string& secret) {
  auto key = secret.empty() ? make_secret() : expected<std::string>(secret);
  if (!key)
    return key.error();
  std::unique_ptr<served_rendezvous> served(new served_rendezvous);
  served->parts_ = std::make_unique<parts>(values);
  rendezvous_options options;
  options.members.size = size;
  options.settings = values;
  options.links = link_settings::of(values);
  options.links.credentials = std::make_shared<const tls_credentials>(*key);
  options.links.log = &served->parts_->log;
  options.bind_ips = ips;
  options.log = &served->parts_->log;
  auto service = start_rendezvous(served->parts_->system.get(), options);
  if (!service)
    return service.error();
  served->parts_->actor = service->actor;
  served->ip_ = ips.front();
  served->port_ = service->port;
  served->secret_ = *key;
  return served;
}

served_rendezvous::~served_rendezvous() {
  if (!parts_ || !parts_->actor)
    return;
  caf::anon_send(parts_->actor, close_atom::value);
  parts_->actor = nullptr;
}

} // namespace farandole
