#include "collectives/transport/ucx/ucx_worker.hpp"

#include <sched.h>

#include <cassert>
#include <utility>

#include "collectives/transport/progress_deadline.hpp"
#include "collectives/transport/ucx/ucx_networks.hpp"

namespace farandole {
namespace {

constexpr unsigned yields_before_sleep = 8;
constexpr std::chrono::microseconds spin{50};

} // namespace

expected<std::unique_ptr<ucx_worker>> ucx_worker::open(const ucx_options& options) {
  auto context = ucx_context::open(options);
  if (!context)
    return context.error();
  return std::unique_ptr<ucx_worker>{new ucx_worker(std::move(*context), options)};
}

ucx_worker::ucx_worker(std::unique_ptr<ucx_context> context, const ucx_options& options)
    : generation_(options.generation), set_(options.set), spins_(options.spins),
      trusted_network_(options.trusted_network), ip_(options.ip), departure_("ucx", options.global_ranks),
      greeting_(generation_, set_), context_(std::move(context)), endpoints_(*context_, departure_),
      requests_(*context_, endpoints_, departure_, ucx_tag{.generation = generation_, .set = set_}) {}

ucx_worker::~ucx_worker() {
  tear_down();
}

/// A failure here closes no connection yet. UCX 1.13 aborts a process (by an assertion in
/// uct_tcp_ep_destroy_progress) that creates an endpoint to a peer whose own connection to the process was
/// opened and closed before, and other members may still be creating theirs. They lose no information: every
/// member connects to all others, so each detects dead members itself.
error ucx_worker::connect(std::span<const std::string> addresses, std::int32_t rank,
                          const deadline_and_abort& deadline) {
  assert(members_ == 0 && "a worker connects once");
  assert(rank >= 0 && static_cast<std::size_t>(rank) < addresses.size());
  rank_ = rank;
  members_ = static_cast<std::int32_t>(addresses.size());
  departure_.meet(rank_, members_);
  requests_.meet(rank_, members_);
  connecting_ = true;
  error problem = endpoints_.create(addresses, rank_);
  // UCX does not notice the death of a silent peer to which nothing was sent, so both ends send a message
  // first.
  if (!problem)
    problem = greeting_.exchange(*this, departure_, deadline);
  // An endpoint has one connection for each device, and each is established only while both ends drive their
  // workers. So each member drives its worker until all others have reported that their connections are
  // established.
  if (!problem)
    problem = flush(deadline);
  if (!problem)
    problem = greeting_.exchange(*this, departure_, deadline);
  if (problem) {
    problem = with_remedy(std::move(problem));
    departure_.fail(problem);
    return problem;
  }
  connecting_ = false;
  return flush(deadline);
}

error ucx_worker::with_remedy(error problem) const {
  if (!trusted_network_ && problem.kind == error_kind::disconnected)
    problem.text +=
        "; without FARANDOLE_TRUSTED_NETWORK=1, UCX needs a fabric with RDMA (rc, dc, ud) between the "
        "hosts and does not use TCP";
  else if (problem.kind == error_kind::disconnected)
    if (const auto addresses = list_interface_addresses())
      problem.text += other_address_remedy(*addresses, ip_);
  return problem;
}

// ---- messages ------------------------------------------------------------------------------------

ucx_tag ucx_worker::tag(message_phase phase, std::int32_t source) const {
  return {generation_, set_, sequence_, phase, source};
}

void ucx_worker::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                      message_ticket& ticket) {
  requests_.send(peer, tag(phase, rank_), bytes, ticket);
}

void ucx_worker::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                         message_ticket& ticket) {
  requests_.receive(peer, tag(phase, peer), bytes, ticket);
}

void ucx_worker::look() {
  while (context_ && !departure_.failure() && context_->progress())
    requests_.listen();
}

error ucx_worker::wait(const message_ticket& ticket, const deadline_and_abort& deadline) {
  return wait_for([&] { return ticket.pending == 0; }, deadline);
}

error ucx_worker::flush(const deadline_and_abort& deadline) {
  if (!context_)
    return departure_.failure();
  ucp_request_param_t params{};
  void* request = context_->ucx().worker_flush_nbx(context_->worker(), &params);
  if (!UCS_PTR_IS_PTR(request))
    return {}; // done, or an endpoint is broken, which its error handler has reported
  error problem = wait_for(
      [&] { return !context_ || context_->ucx().request_check_status(request) != UCS_INPROGRESS; }, deadline);
  if (context_)
    context_->ucx().request_free(request);
  return problem;
}

/// Progress is the end of a message: UCX does not tell how much of one it has moved, and it also counts its own
/// keepalive probes, with which it would wait for ever for a member that is stopped.
error ucx_worker::wait_for(const std::function<bool()>& done, const deadline_and_abort& deadline) {
  if (done())
    return {};
  if (!context_)
    return departure_.failure();
  progress_deadline limit(deadline.deadline, timeout_, clock::now());
  auto ended = requests_.ended();
  context_->reset_sleep();
  unsigned idle = 0;
  clock::time_point idle_since{};
  for (unsigned round = 0;; ++round) {
    const bool moved = context_->progress();
    requests_.listen();
    if (moved && round % 64 != 0 && !departure_.failure() && !deadline.abort.raised()) {
      idle = 0;
      if (done())
        return {};
      continue;
    }
    if (done())
      return {};
    if (departure_.guessed())
      hear_out();
    if (std::exchange(ended, requests_.ended()) != requests_.ended())
      limit.progressed(clock::now());
    if (error problem = departure_.reason_to_stop(deadline, limit.at())) {
      departure_.fail(problem);
      if (!connecting_)
        tear_down();
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
    if (!context_->sleep(limit.at()))
      idle = 0;
  }
}

void ucx_worker::hear_out() {
  context_->progress_until(clock::now() + departure_.goodbye_wait(), [&] {
    requests_.listen();
    return !departure_.guessed();
  });
  departure_.settle();
}

// ---- the end -------------------------------------------------------------------------------------

void ucx_worker::give_up(const error& reason) {
  departure_.fail(reason);
  tear_down();
}

/// Flushes goodbyes, cancels receives, closes the endpoints and destroys the worker, in this order.
/// Afterwards neither UCX nor any process on the network can access the buffers.
void ucx_worker::tear_down() {
  if (!context_)
    return;
  const goodbye_round parting = departure_.leave();
  const auto end = clock::now() + parting.patience;
  requests_.say(parting, end);
  // UCX completes a send when it has buffered the bytes; a forced close would drop bytes that it has not sent
  // on.
  endpoints_.flush(end);
  requests_.cancel_receives();
  if (parting.message.culprit == goodbye::in_order)
    endpoints_.close(end);
  endpoints_.break_all();
  context_.reset();
}

} // namespace farandole
