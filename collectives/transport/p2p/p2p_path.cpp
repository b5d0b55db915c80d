#include "collectives/transport/p2p/p2p_path.hpp"

#include <cassert>
#include <chrono>
#include <utility>

#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/p2p/message_exchange.hpp"

namespace farandole {

p2p_path::p2p_path(std::string_view name, std::unique_ptr<peer_messenger> messenger,
                   const p2p_options& options)
    : name_(name), messenger_(std::move(messenger)), staging_(std::make_unique<message_staging>()),
      probe_(options.probe) {
  staging_->adasum_message_bytes = options.adasum_message_bytes;
}

p2p_path::~p2p_path() = default;

std::string p2p_path::address() {
  return messenger_->address();
}

error p2p_path::connect(std::span<const std::string> addresses, std::int32_t rank,
                        const deadline_and_abort& deadline) {
  broken_ = messenger_->connect(addresses, rank, deadline);
  return broken_;
}

std::string p2p_path::remark() const {
  return messenger_->remark();
}

outcome p2p_path::run(const work& bundle, const deadline_and_abort& deadline) {
  return run(bundle, deadline, nullptr);
}

outcome p2p_path::run(const work& bundle, const deadline_and_abort& deadline,
                      const piece_callbacks& callbacks) {
  return run(bundle, deadline, &callbacks);
}

outcome p2p_path::run(const work& bundle, const deadline_and_abort& deadline,
                      const piece_callbacks* callbacks) {
  if (!broken_)
    if (error problem = why_not_on_cpu(bundle, static_cast<std::size_t>(messenger_->members())))
      return {problem}; // nothing has been sent, so the path stays usable
  return exchanged(bundle, deadline, callbacks, [](message_exchange& all) { return all.run(); });
}

outcome p2p_path::carry(const work& bundle, const deadline_and_abort& deadline,
                        const adasum_exchange& value) {
  return exchanged(bundle, deadline, nullptr, [&](message_exchange& all) { return all.carry(value); });
}

outcome p2p_path::exchanged(const work& bundle, const deadline_and_abort& deadline,
                            const piece_callbacks* callbacks,
                            const std::function<error(message_exchange&)>& value) {
  if (broken_)
    return {broken_};
  assert(messenger_->members() > 0 && "connect() comes before run()");
  messenger_->begin(bundle.sequence, deadline.deadline - std::chrono::steady_clock::now());
  const auto waited_before = messenger_->waited();
  message_exchange all{*messenger_, *staging_, bundle, deadline, probe_, callbacks};
  error problem = value(all);
  if (!problem)
    problem = messenger_->flush(deadline);
  if (problem)
    messenger_->give_up(problem);
  broken_ = problem;
  return {problem, messenger_->waited() - waited_before};
}

} // namespace farandole
