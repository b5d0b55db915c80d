#include "actors/gpu/staged_runner.hpp"

#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "actors/gpu/device_bundle.hpp"
#include "actors/gpu/device_deadline.hpp"
#include "actors/submission/growing_pause.hpp"

namespace farandole {

namespace {

error aborted() {
  return {error_kind::disconnected, "aborted while the device copied"};
}

} // namespace

struct staged_runner::chunk_in_flight {
  const staged_chunk* plan = nullptr;
  pinned_memory_ptr memory; ///< null if no byte of it is this member's
  std::byte* host = nullptr;
  device_progress copied;
};

/// The chunks of one bundle.
class staged_runner::transfer {
public:
  transfer(const work& bundle, const deadline_and_abort& deadline, const options& settings, staging* copies)
      : bundle_(bundle), deadline_(deadline), settings_(settings), copies_(copies),
        chunks_(chunks_of(bundle, settings.chunk_bytes, settings.rank)), ready_(ready_points(bundle)) {}

  outcome run(const host_run& run_on_host) {
    outcome result;
    result.error = move_all(run_on_host);
    if (copies_ != nullptr)
      result.device = {done_, copies_->progress()};
    return result;
  }

private:
  error move_all(const host_run& run_on_host) {
    chunk_in_flight next;
    if (auto problem = begin(0, next))
      return problem;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      auto current = std::exchange(next, {});
      if (i + 1 < chunks_.size())
        if (auto problem = begin(i + 1, next))
          return problem;
      if (auto problem = wait_for(current.copied))
        return problem;
      auto host = host_work_of(bundle_, *current.plan, current.host);
      const deadline_and_abort from_now{deadline_.abort,
                                        std::chrono::steady_clock::now() + settings_.operation_timeout,
                                        deadline_.deadline_setting};
      if (auto problem = run_on_host(host, from_now))
        return problem;
      if (auto problem = end(current))
        return problem;
    }
    return {};
  }

  // Makes the device copy a chunk to host memory.
  error begin(std::size_t index, chunk_in_flight& chunk) {
    chunk.plan = &chunks_[index];
    if (copies_ == nullptr || chunk.plan->host_bytes == 0)
      return {};
    auto memory = copies_->take(chunk.plan->host_bytes);
    if (!memory)
      return memory.error();
    chunk.memory = std::move(*memory);
    chunk.host = chunk.memory->bytes().data();
    const auto pieces = copied_out(bundle_, *chunk.plan, chunk.host, settings_.rank);
    if (pieces.empty())
      return {};
    auto copied = copies_->copy_out(pieces, points_of_first(first_out_), chunk.memory);
    if (!copied)
      return copied.error();
    chunk.copied = copied->progress;
    return {};
  }

  // Makes the device copy the results of a chunk back.
  error end(const chunk_in_flight& chunk) {
    const auto pieces = copied_in(bundle_, *chunk.plan, chunk.host, settings_.rank);
    if (pieces.empty())
      return {};
    auto copied = copies_->copy_in(pieces, points_of_first(first_in_), chunk.memory);
    if (!copied)
      return copied.error();
    done_ = std::move(copied->done);
    return {};
  }

  // Until the device has begun, it waits for the caller's own work, which has no deadline.
  error wait_for(const device_progress& progress) const {
    failure_questions questions;
    device_deadline deadline(settings_.operation_timeout);
    for (growing_pause pause; !progress.ended(); pause.wait()) {
      if (deadline_.abort.raised())
        return aborted();
      const auto current_time = std::chrono::steady_clock::now();
      if (deadline.has_passed(progress, current_time))
        return {error_kind::timed_out, copies_->name() + " did not end a copy to host memory: " +
                                           deadline_.deadline_setting + " has passed"};
      if (questions.is_time(current_time))
        if (auto problem = copies_->failure())
          return problem;
      settings_.while_waiting();
    }
    return {};
  }

  // Copies in one direction are in order, so only the first has to wait for the tensors.
  std::span<const device_point_ptr> points_of_first(bool& is_first) {
    return std::exchange(is_first, false) ? std::span<const device_point_ptr>(ready_)
                                          : std::span<const device_point_ptr>();
  }

  const work& bundle_;
  const deadline_and_abort& deadline_;
  const options& settings_;
  staging* copies_;
  std::vector<staged_chunk> chunks_;
  std::vector<device_point_ptr> ready_;
  bool first_out_ = true, first_in_ = true;
  device_point_ptr done_; ///< of the last copy back
};

outcome staged_runner::run(const work& bundle, const deadline_and_abort& deadline,
                           const host_run& run_on_host) {
  staging* copies = nullptr;
  if (const auto device = device_of(bundle); device >= 0) {
    auto opened = staging_of(device);
    if (!opened)
      return {opened.error()};
    copies = *opened;
  }
  return transfer(bundle, deadline, options_, copies).run(run_on_host);
}

expected<staging*> staged_runner::staging_of(std::int32_t device) {
  auto& entry = opened_[device];
  if (!entry) {
    auto opened = open_(device);
    if (!opened)
      return opened.error();
    entry = std::move(*opened);
  }
  return entry.get();
}

error staged_runner::failure() const {
  for (const auto& [device, copies] : opened_)
    if (copies)
      if (auto problem = copies->failure())
        return problem;
  return {};
}

} // namespace farandole
