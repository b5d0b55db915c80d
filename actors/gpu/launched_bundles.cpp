#include "actors/gpu/launched_bundles.hpp"

#include <utility>

#include "collectives/transport/progress_deadline.hpp"

namespace farandole {

error overdue(const launched_bundle& bundle, device_deadline& deadline,
              device_deadline::time_point current_time, const error& aborted, const std::string& citation) {
  if (aborted && (bundle.waits_for_members || !bundle.progress.begun()))
    return aborted;
  if (!deadline.has_passed(bundle.progress, current_time))
    return {};
  const auto device = bundle.operations.empty() ? -1 : bundle.operations.front()->memory.device;
  return {error_kind::timed_out,
          "GPU " + std::to_string(device) + " did not end its work on bundle " +
              std::to_string(bundle.sequence) +
              (bundle.waits_for_members ? ", for which it needs the GPUs of the other ranks" : "") + ": " +
              citation + " has passed"};
}

device_deadline launched_bundles::deadline_of(const launched_bundle& bundle) const {
  return device_deadline(timeout_of_call(timeout_.length, bundle.larger_side));
}

void launched_bundles::add(launched_bundle bundle, const std::function<void()>& settle) {
  const bool works = !bundle.progress.ended();
  if (works)
    ledger_->launched();
  if (bundle.waits_for_members)
    ledger_->depends_on_members();
  settle();
  if (!works && bundles_.empty()) {
    finished_(bundle.sequence, bundle.bytes, bundle.cause);
    return;
  }
  const auto deadline = deadline_of(bundle);
  bundles_.push_back({std::move(bundle), works, deadline});
}

bool launched_bundles::release_ended() {
  bool any = false;
  while (!bundles_.empty() && bundles_.front().bundle.progress.ended()) {
    if (bundles_.front().counted)
      ledger_->released();
    const auto first = take_first();
    finished_(first.sequence, first.bytes, first.cause);
    any = true;
  }
  return any;
}

error launched_bundles::overdue(time_point current_time, const error& aborted) {
  if (bundles_.empty())
    return {};
  auto& oldest = bundles_.front();
  return farandole::overdue(oldest.bundle, oldest.deadline, current_time, aborted, timeout_.citation);
}

void launched_bundles::give_up(const error& reason) {
  release_ended();
  std::size_t counted = 0;
  while (!bundles_.empty()) {
    counted += bundles_.front().counted ? 1 : 0;
    const auto first = take_first();
    const bool ended = first.progress.ended();
    if (!ended)
      for (const auto& operation : first.operations) {
        operation->late_problem = reason;
        operation->given_up.store(true, std::memory_order_release);
      }
    finished_(first.sequence, first.bytes, first.cause || ended ? first.cause : reason);
  }
  ledger_->given_up(counted, reason);
}

// A bundle leaves before its end is reported: the report may look at the others.
launched_bundle launched_bundles::take_first() {
  auto first = std::move(bundles_.front().bundle);
  bundles_.pop_front();
  return first;
}

} // namespace farandole
