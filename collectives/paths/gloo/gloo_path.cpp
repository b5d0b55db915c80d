#include "collectives/paths/gloo/gloo_path.hpp"

#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/exchange/message_exchange.hpp"
#include "collectives/paths/gloo/gloo_worker.hpp"
#include "collectives/paths/path_setup.hpp"

namespace farandole {

class gloo_path::state {
public:
  std::function<void(message_phase, std::size_t)> probe;
  message_staging staging{};
  std::unique_ptr<gloo_worker> worker; ///< goes before the memory that its messages may lie in
  error broken;
};

gloo_path::gloo_path(std::unique_ptr<state> opened) : state_(std::move(opened)) {}
gloo_path::~gloo_path() = default;

expected<std::unique_ptr<gloo_path>> gloo_path::open(const gloo_options& options) {
  auto worker = gloo_worker::open(options);
  if (!worker)
    return worker.error();
  auto opened = std::make_unique<state>();
  opened->probe = options.probe;
  opened->staging.adasum_message_bytes = options.adasum_message_bytes;
  opened->worker = std::move(*worker);
  return std::unique_ptr<gloo_path>{new gloo_path(std::move(opened))};
}

std::string gloo_path::address() {
  return state_->worker->address();
}

error gloo_path::connect(std::span<const std::string> addresses, std::int32_t /*rank: known since open()*/,
                         const limits& until) {
  state_->broken = state_->worker->connect(addresses, until);
  return state_->broken;
}

outcome gloo_path::run(const work& bundle, const limits& until) {
  if (state_->broken)
    return {state_->broken};
  gloo_worker& worker = *state_->worker;
  if (error problem = why_not_on_cpu(bundle, static_cast<std::size_t>(worker.members())))
    return {problem}; // nothing has been sent: the path remains
  state_->broken = message_exchange{worker, state_->staging, bundle, until, state_->probe, nullptr}.run();
  if (state_->broken)
    worker.give_up(state_->broken);
  return {state_->broken};
}

expected<std::unique_ptr<path>> open_gloo(const path_setup& setup) {
  gloo_options options;
  options.generation = setup.set.generation;
  options.set = setup.set.set;
  options.rank = setup.set.rank;
  options.global_ranks = setup.global_ranks(setup.all_ranks());
  if (auto ip = setup.ip(); !ip.empty())
    options.ip = ip;
  options.adasum_message_bytes = setup.options.adasum_message_bytes;
  return as_path(gloo_path::open(options));
}

} // namespace farandole
