#include "collectives/paths/exchange/exchange_path.hpp"

#include <cassert>
#include <utility>

#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/exchange/message_exchange.hpp"

namespace farandole {

exchange_path::exchange_path(std::string_view name, std::unique_ptr<peer_messenger> messenger,
                             const exchange_options& options)
    : name_(name), messenger_(std::move(messenger)), staging_(std::make_unique<message_staging>()),
      probe_(options.probe) {
  staging_->adasum_message_bytes = options.adasum_message_bytes;
}

exchange_path::~exchange_path() = default;

std::string exchange_path::address() {
  return messenger_->address();
}

error exchange_path::connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) {
  broken_ = messenger_->connect(addresses, rank, until);
  return broken_;
}

std::string exchange_path::remark() const {
  return messenger_->remark();
}

outcome exchange_path::run(const work& bundle, const limits& until) {
  return run(bundle, until, nullptr);
}

outcome exchange_path::run(const work& bundle, const limits& until, const piece_interludes& around) {
  return run(bundle, until, &around);
}

outcome exchange_path::run(const work& bundle, const limits& until, const piece_interludes* around) {
  if (!broken_)
    if (error problem = why_not_on_cpu(bundle, static_cast<std::size_t>(messenger_->members())))
      return {problem}; // nothing has been sent: the path remains
  return exchanged(bundle, until, around, [](message_exchange& all) { return all.run(); });
}

outcome exchange_path::carry(const work& bundle, const limits& until, const adasum_exchange& what) {
  return exchanged(bundle, until, nullptr, [&](message_exchange& all) { return all.carry(what); });
}

outcome exchange_path::exchanged(const work& bundle, const limits& until, const piece_interludes* around,
                                 const std::function<error(message_exchange&)>& what) {
  if (broken_)
    return {broken_};
  assert(messenger_->members() > 0 && "connect() comes before run()");
  messenger_->begin(bundle.sequence);
  message_exchange all{*messenger_, *staging_, bundle, until, probe_, around};
  error problem = what(all);
  if (!problem)
    problem = messenger_->flush(until);
  if (problem)
    messenger_->give_up(problem);
  broken_ = problem;
  return {problem};
}

} // namespace farandole
