// How an ucx_worker waits, and how it ends.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cassert>

#include "collectives/paths/ucx/ucx_worker.hpp"

namespace farandole {
namespace {

constexpr unsigned yields_before_sleep = 8;
constexpr std::chrono::microseconds spin{50};

} // namespace

error ucx_worker::wait(const message_ticket& ticket, const limits& until) {
  return wait_for([&] { return ticket.pending == 0; }, until);
}

void ucx_worker::look() {
  while (worker_ != nullptr && !losses_.failure() && ucx_.worker_progress(worker_) != 0)
    listen_for_goodbye();
}

error ucx_worker::flush(const limits& until) {
  if (worker_ == nullptr)
    return losses_.failure();
  ucp_request_param_t params{};
  void* request = ucx_.worker_flush_nbx(worker_, &params);
  if (!UCS_PTR_IS_PTR(request))
    return {}; // done, or an endpoint is broken, which its error handler has told
  error problem = wait_for(
      [&] { return worker_ == nullptr || ucx_.request_check_status(request) != UCS_INPROGRESS; }, until);
  if (worker_ != nullptr)
    ucx_.request_free(request);
  return problem;
}

error ucx_worker::wait_for(const std::function<bool()>& done, const limits& until) {
  slice_ms_ = 1;
  unsigned idle = 0;
  clock::time_point idle_since{};
  for (unsigned round = 0;; ++round) {
    if (done())
      return {};
    const bool moved = worker_ != nullptr && ucx_.worker_progress(worker_) != 0;
    listen_for_goodbye();
    if (moved && round % 64 != 0 && !losses_.failure() && !until.abort.raised()) {
      idle = 0;
      continue;
    }
    if (done())
      return {};
    if (losses_.guessed())
      hear_out();
    if (error problem = reason_to_stop(until)) {
      losses_.fail(problem);
      if (!connecting_)
        tear_down(losses_.culprit_or(rank_));
      return problem;
    }
    if (moved)
      continue;
    if (idle == 0)
      idle_since = clock::now();
    ++idle;
    if (spins_ ? clock::now() - idle_since < spin : idle <= yields_before_sleep) {
      if (!spins_)
        sched_yield();
      continue;
    }
    if (!sleep(until.deadline))
      idle = 0;
  }
}

error ucx_worker::reason_to_stop(const limits& until) const {
  if (!losses_.failure() && worker_ == nullptr)
    return {error_kind::disconnected, "the ucx path is closed"};
  return losses_.reason_to_stop(until);
}

void ucx_worker::hear_out() {
  progress_until(clock::now() + hearing, [&] {
    listen_for_goodbye();
    return !losses_.guessed();
  });
  if (!losses_.guessed())
    return;
  // Who came late finds several connections closed, and nobody to ask which was the first.
  std::vector<std::int32_t> lost;
  for (std::int32_t at = 0; at < members(); ++at)
    if ((peers_[at].broken && !peers_[at].left) || at == losses_.culprit_or(-1))
      lost.push_back(at);
  losses_.settle_guess(lost);
}

bool ucx_worker::sleep(clock::time_point until) {
  if (ucx_.worker_arm(worker_) != UCS_OK)
    return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  pollfd news{event_, POLLIN, 0};
  const int slice = static_cast<int>(std::clamp<std::int64_t>(left, 0, slice_ms_));
  if (::poll(&news, 1, slice) > 0)
    return false;
  slice_ms_ = std::min(slice_ms_ + 1, longest_slice_ms);
  return true;
}

// ---- the end -------------------------------------------------------------------------------------

void ucx_worker::give_up(const error& why) {
  losses_.fail(why);
  leave();
}

void ucx_worker::leave() {
  if (worker_ == nullptr && context_ == nullptr)
    return;
  if (!losses_.failure())
    tear_down(-1);
  else
    tear_down(losses_.culprit_or(rank_));
}

/// Receives are cancelled and waited for, endpoints closed, the worker destroyed, in this order; from here on
/// neither UCX nor anybody on the network can reach the buffers.
void ucx_worker::tear_down(std::int32_t culprit) {
  closing_ = true;
  losses_.fail({error_kind::disconnected, "the ucx path is closed"});
  const bool in_order = culprit < 0;
  if (worker_ != nullptr) {
    const auto now = clock::now();
    say_goodbye(culprit, now + (in_order ? orderly_leave : last_words));
    cancel_receives();
    if (in_order)
      close_endpoints(now + orderly_leave);
    break_endpoints();
    ucx_.worker_destroy(worker_);
    worker_ = nullptr;
    event_ = -1;
  }
  if (context_ != nullptr)
    ucx_.cleanup(context_);
  context_ = nullptr;
}

void ucx_worker::cancel_receives() {
  for (record& pending : records_)
    if (pending.request != nullptr && pending.receives)
      ucx_.request_cancel(worker_, pending.request);
}

void ucx_worker::close_endpoints(clock::time_point until) {
  std::vector<void*> closing;
  for (peer& target : peers_) {
    if (target.endpoint == nullptr || target.broken)
      continue;
    ucp_request_param_t params{};
    void* request = ucx_.ep_close_nbx(target.endpoint, &params);
    target.endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request))
      closing.push_back(request);
  }
  await_and_free(closing, until);
}

/// Not driven any further before the worker is destroyed: what is half sent has been dropped, and what was
/// queued behind it would reach the peer as the other half (UCX 1.13; the peer then fails an assertion).
void ucx_worker::break_endpoints() {
  for (peer& target : peers_) {
    if (target.endpoint == nullptr)
      continue;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = ucx_.ep_close_nbx(target.endpoint, &params);
    target.endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request))
      ucx_.request_free(request);
  }
}

void ucx_worker::await_and_free(std::span<void* const> requests, clock::time_point until) {
  progress_until(until, [&] {
    return std::none_of(requests.begin(), requests.end(),
                        [&](void* request) { return ucx_.request_check_status(request) == UCS_INPROGRESS; });
  });
  for (void* request : requests)
    ucx_.request_free(request);
}

bool ucx_worker::progress_until(clock::time_point until, const std::function<bool()>& done) {
  slice_ms_ = 1;
  while (!done()) {
    if (ucx_.worker_progress(worker_) != 0)
      continue;
    if (clock::now() >= until)
      return false;
    sleep(until);
  }
  return true;
}

} // namespace farandole
