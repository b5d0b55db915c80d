#include "collectives/transport/shm/lane_channel.hpp"

#include <utility>

#include "collectives/operation.hpp"
#include "collectives/transport/progress_deadline.hpp"
#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

lane_channel::lane_channel(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy,
                           probe watch)
    : shm_channel(rank, shared->layout().members), segment_(std::move(shared)), waiting_(policy),
      placement_(segment_, rank, usable_cores()), probe_(std::move(watch)) {}

void lane_channel::begin(const work& bundle, const deadline_and_abort& deadline) {
  bundle_ = &bundle;
  deadline_ = &deadline;
  timeout_ = deadline.deadline - std::chrono::steady_clock::now();
  problem_ = {};
  waited_ = {};
}

std::size_t lane_channel::slot_bytes() const {
  return segment_->layout().chunk_bytes / share_alignment * share_alignment;
}

std::byte* lane_channel::slot(std::uint32_t member, std::uint64_t step) {
  return segment_->slot(member, static_cast<std::uint32_t>(step % slots()));
}

std::byte* lane_channel::own_slot(std::uint64_t step, std::size_t bytes) {
  segment_->prefault(rank(), static_cast<std::uint32_t>(step % slots()), bytes);
  return slot(rank(), step);
}

wait_status lane_channel::await(counter which, std::uint32_t member, std::uint64_t reached) {
  if (probe_)
    probe_(local_phase::wait, reached);
  const auto wanted = static_cast<std::uint32_t>(reached);
  auto& theirs = segment_->counters(member).*which;
  auto end = wait_end::reached;
  if (!theirs.has_reached(wanted)) {
    const auto begun = std::chrono::steady_clock::now();
    const progress_deadline limit(deadline_->deadline, timeout_, begun);
    end = waiting_.until_reached(theirs, wanted, deadline_->abort.word(), limit.at());
    waited_ += std::chrono::steady_clock::now() - begun;
  }
  // After an abort the wait fails even if the counter has reached the value: the other members may be gone.
  if (end == wait_end::reached && !deadline_->abort.raised()) {
    if (theirs.proves(wanted))
      return wait_status::satisfied;
    return fail(error_kind::unknown, "found the progress of local member " + std::to_string(member) +
                                         " damaged in shared memory: it does not match its checksum");
  }
  if (end == wait_end::expired)
    return fail(error_kind::timed_out, "waited for local member " + std::to_string(member) + " until the " +
                                           deadline_->deadline_setting + " passed");
  return fail(error_kind::disconnected, "was given up: the group has changed");
}

void lane_channel::publish(counter which, std::uint64_t reached) {
  (segment_->counters(rank()).*which).publish(static_cast<std::uint32_t>(reached));
}

void lane_channel::enter(local_phase phase, std::uint64_t step) {
  placement_.look();
  if (probe_)
    probe_(phase, step);
}

wait_status lane_channel::fail(error_kind kind, const std::string& text) {
  problem_ = {kind, std::string(row_of(bundle_->operation).name) + " (bundle " +
                        std::to_string(bundle_->sequence) + ") " + text};
  return wait_status::failed;
}

} // namespace farandole
