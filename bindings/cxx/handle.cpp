#include <algorithm>
#include <utility>

#include "actors/submission/device_gate.hpp"
#include "actors/submission/growing_pause.hpp"
#include "actors/submission/operation_state.hpp"
#include "actors/submission/process_guard.hpp"
#include "actors/submission/submission_queue.hpp"
#include "bindings/cxx/runtime.hpp"

namespace farandole {

namespace {

using clock = std::chrono::steady_clock;

// Longest sleep of a waiting thread that has to check for signals.
constexpr std::chrono::milliseconds slice{100};

error still_waiting(const operation_state& operation, error_kind kind, const char* reason) {
  return {kind, operation.name + ": " + reason + "; the operation goes on and can be waited for again"};
}

void tell_of_long_wait(operation_state& operation) {
  if (auto queue = operation.queue.lock())
    queue->report_slow(operation);
}

// Sleeps once, until something may have changed; how depends on the operation's phase.
void sleep(const operation_state& operation, clock::time_point deadline) {
  const auto current = operation.now();
  if (current != phase::on_fast_path)
    return operation.wait_for_change(current, deadline);
  const auto need = operation.awaited();
  if (!need)
    return;
  // Watches the other members' cells and the phase word, because the event loop may take the operation off the fast
  // path.
  operation_state::watcher watching(operation);
  auto& slot = *operation.taken_slot;
  slot.fast_path().wait(slot.cell(), operation.round, operation.word(), static_cast<std::uint32_t>(current),
                        deadline, *need, slot.patience());
}

// Waits until the device has finished with a settled operation. Nothing wakes this thread, so it polls.
error wait_for_device(const operation_state& operation, clock::time_point deadline,
                      const std::function<bool()>& interrupted) {
  auto next_check = clock::now() + slice;
  for (growing_pause pause; !operation.on_device.progress.ended(); pause.wait()) {
    if (operation.given_up.load(std::memory_order_acquire))
      return operation.late_problem;
    const auto current_time = clock::now();
    if (current_time >= deadline)
      return still_waiting(operation, error_kind::timed_out,
                           "the GPU had not finished at the caller's deadline");
    if (interrupted && current_time >= next_check) {
      next_check = current_time + slice;
      if (interrupted())
        return still_waiting(operation, error_kind::aborted, "the wait was interrupted");
    }
  }
  return {};
}

/// Records that a caller waits, and how the wait ended.
class recorded_wait {
public:
  explicit recorded_wait(const operation_state& operation) : operation_(operation) {
    operation_.record(event_kind::wait_begin);
  }
  recorded_wait(const recorded_wait&) = delete;
  recorded_wait& operator=(const recorded_wait&) = delete;
  ~recorded_wait() {
    const auto kind = operation_.settled() ? operation_.problem.kind : error_kind::timed_out;
    operation_.record(event_kind::wait_end, static_cast<std::uint8_t>(kind));
  }

private:
  const operation_state& operation_;
};

} // namespace

handle::handle() = default;
handle::handle(operation_state* adopted, std::shared_ptr<const process_guard> mark) noexcept
    : pending_(adopted), mark_(std::move(mark)) {}
handle::handle(const handle& other) noexcept
    : pending_(operation_state_ptr::share(other.pending_).release()), mark_(other.mark_) {
  if (pending_ && pending_->owns_output)
    pending_->hold();
}
handle::handle(handle&& other) noexcept
    : pending_(std::exchange(other.pending_, nullptr)), mark_(std::move(other.mark_)) {}
handle& handle::operator=(handle other) noexcept {
  std::swap(pending_, other.pending_);
  std::swap(mark_, other.mark_);
  return *this;
}
handle::~handle() {
  if (!pending_ || !usable_here())
    return;
  if (!pending_->owns_output || pending_->drop_handle())
    leave();
  operation_state_ptr::adopt(pending_);
}

// A forked child has neither the threads nor the shared memory by which operations are settled.
bool handle::usable_here() const {
  return mark_->is_local();
}

// Operations on the fast path are settled by the waiting thread, and other members may need what it does there: a part
// of the sum, or a copy of the rows that they lent.
void handle::leave() const {
  if (usable_here() && pending_->awaited())
    if (auto queue = pending_->queue.lock())
      queue->settle_from_loop(*pending_);
}

bool handle::settled() const {
  return !usable_here() || pending_->try_settle(operation_state::runner::nobody);
}

bool handle::released() const {
  return !usable_here() || (settled() && pending_->released());
}

bool handle::ready_for_streams() const {
  return !usable_here() || (released() && !is_ready_with_tensor(*pending_));
}

error handle::wait(clock::time_point deadline, const std::function<bool()>& interrupted) const {
  if (auto problem = wait_until_settled(deadline, interrupted))
    return problem;
  return pending_->on_device.progress.ended() ? error{} : wait_for_device(*pending_, deadline, interrupted);
}

error handle::wait_on_stream(void* stream, clock::time_point deadline,
                             const std::function<bool()>& interrupted) const {
  if (auto problem = wait_until_settled(deadline, interrupted))
    return problem;
  return make_stream_wait(*pending_, stream);
}

error handle::wait_until_settled(clock::time_point deadline, const std::function<bool()>& interrupted) const {
  if (!usable_here())
    return forked_error();
  if (pending_->try_settle())
    return pending_->reported();
  const recorded_wait recorded(*pending_);
  clock::time_point slow_at = clock::time_point::max(); // when a wait on the fast path counts as long
  bool reported = false;
  while (!pending_->try_settle()) {
    auto current_time = clock::now();
    if (!reported && pending_->awaited()) {
      slow_at = std::min(slow_at, current_time + slow_wait);
      if (reported = current_time >= slow_at; reported)
        tell_of_long_wait(*pending_);
    }
    if (current_time >= deadline) {
      leave();
      return still_waiting(*pending_, error_kind::timed_out, "not settled at the caller's deadline");
    }
    if (interrupted && interrupted()) {
      leave();
      return still_waiting(*pending_, error_kind::aborted, "the wait was interrupted");
    }
    auto longest = interrupted ? current_time + slice : current_time + std::chrono::hours{1};
    sleep(*pending_, std::min({deadline, longest, reported ? deadline : slow_at}));
  }
  return pending_->reported();
}

bool handle::failed() const {
  return !usable_here() || (pending_->settled() && pending_->problem);
}

error handle::problem() const {
  if (!usable_here())
    return forked_error();
  return settled() ? pending_->reported() : error{};
}

const result& handle::result() const {
  return pending_->outcome;
}

void handle::on_settled(std::function<void()> callback) {
  if (!usable_here())
    return callback();
  pending_->on_settled(std::move(callback));
  leave();
}

void handle::cancel() {
  if (!usable_here())
    return;
  if (auto queue = pending_->queue.lock())
    queue->withdraw(*pending_);
}

} // namespace farandole
