#include "collectives/paths/ucx/ucx_path.hpp"

#include <cassert>

#include "collectives/paths/exchange/message_exchange.hpp"
#include "collectives/paths/ucx/ucx_worker.hpp"

namespace farandole {

class ucx_path::state {
public:
  std::unique_ptr<ucx_worker> worker;
  std::function<void(message_phase, std::size_t)> probe;
  message_staging staging{};
  error broken;
};

ucx_path::ucx_path(std::unique_ptr<state> opened) : state_(std::move(opened)) {}
ucx_path::~ucx_path() = default;

expected<std::unique_ptr<ucx_path>> ucx_path::open(const ucx_options& options) {
  auto worker = ucx_worker::open(options);
  if (!worker)
    return worker.error();
  auto opened = std::make_unique<state>();
  opened->worker = std::move(*worker);
  opened->probe = options.probe;
  opened->staging.adasum_message_bytes = options.adasum_message_bytes;
  return std::unique_ptr<ucx_path>{new ucx_path(std::move(opened))};
}

std::string ucx_path::address() const {
  return state_->worker->address();
}

error ucx_path::connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) {
  state_->broken = state_->worker->connect(addresses, rank, until);
  return state_->broken;
}

outcome ucx_path::run(const work& bundle, const limits& until) {
  return run(bundle, until, nullptr);
}

outcome ucx_path::run(const work& bundle, const limits& until, const piece_interludes& around) {
  return run(bundle, until, &around);
}

outcome ucx_path::run(const work& bundle, const limits& until, const piece_interludes* around) {
  if (bundle.operation == operation::allreduce && bundle.reduce_op == reduce_op::adasum && !state_->broken)
    if (error problem = why_no_adasum(bundle.dtype, static_cast<std::size_t>(state_->worker->members())))
      return {problem}; // nothing has been sent: the path remains
  return exchanged(bundle, until, around, [](message_exchange& all) { return all.run(); });
}

outcome ucx_path::carry(const work& bundle, const limits& until, const adasum_exchange& what) {
  return exchanged(bundle, until, nullptr, [&](message_exchange& all) { return all.carry(what); });
}

outcome ucx_path::exchanged(const work& bundle, const limits& until, const piece_interludes* around,
                            const std::function<error(message_exchange&)>& what) {
  if (state_->broken)
    return {state_->broken};
  assert(state_->worker->members() > 0 && "connect() comes before run()");
  ucx_worker& worker = *state_->worker;
  worker.begin(bundle.sequence);
  message_exchange all{worker, state_->staging, bundle, until, state_->probe, around};
  error problem = what(all);
  if (!problem)
    problem = worker.flush(until);
  if (problem)
    worker.give_up(problem);
  state_->broken = problem;
  return {problem};
}

} // namespace farandole
