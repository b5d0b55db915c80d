#include "collectives/transport/tcp/tcp_messenger.hpp"

#include <sched.h>

#include <algorithm>
#include <cassert>

#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/progress_deadline.hpp"
#include "collectives/transport/tcp/tcp_address.hpp"

namespace farandole {
namespace {

/// How long a member that cannot connect to all others still connects to the rest, to tell them why it
/// leaves.
constexpr std::chrono::milliseconds rest_of_meeting{1000};

/// Up to this number of members, trying each connection costs no more than a poll() of all of them.
constexpr std::int32_t few_members = 3;

int milliseconds_until(std::chrono::steady_clock::time_point end, int limit) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, limit));
}

} // namespace

expected<std::unique_ptr<tcp_messenger>> tcp_messenger::open(const tcp_options& options) {
  std::unique_ptr<tcp_messenger> made{new tcp_messenger(options)};
  made->address_ = tcp_address{options.ip, 0}.text(); // the others' listeners expect calls from it
  if (!options.listens)
    return made;
  auto listener = open_listener(options.ip, options.ports);
  if (!listener)
    return error{error_kind::unknown, "the tcp path cannot start: " + listener.error().text};
  made->address_ = tcp_address{options.ip, port_of(*listener)}.text();
  made->listener_ = std::move(*listener);
  return made;
}

tcp_messenger::tcp_messenger(const tcp_options& options)
    : options_(options), departure_("tcp", options.global_ranks) {}

tcp_messenger::~tcp_messenger() {
  leave();
}

// ---- meeting -------------------------------------------------------------------------------------

error tcp_messenger::connect(std::span<const std::string> addresses, std::int32_t rank,
                             const deadline_and_abort& deadline) {
  assert(members_ == 0 && "a messenger connects once");
  assert(rank >= 0 && static_cast<std::size_t>(rank) < addresses.size());
  assert(listener_ || static_cast<std::size_t>(rank) + 1 == addresses.size());
  rank_ = rank;
  members_ = static_cast<std::int32_t>(addresses.size());
  channels_.resize(addresses.size());
  departure_.meet(rank_, members_);
  const channel_group group{options_.generation, options_.set, options_.cross_host_group, members_, rank_};
  meeting_ = std::make_unique<tcp_meeting>(
      std::move(listener_), std::make_shared<const tls_credentials>(options_.secret, data_purpose), group,
      faster_suite());
  error problem = meeting_->call(addresses, clock::now());
  if (!problem)
    problem = meet(deadline);
  remark_ = refusals();
  tell_missing({});
  if (problem) {
    departure_.fail(problem);
    tear_down();
  }
  meeting_.reset();
  return problem;
}

error tcp_messenger::meet(const deadline_and_abort& deadline) {
  clock::time_point give_up = clock::time_point::max();
  while (!meeting_->complete() && clock::now() < give_up) {
    meet_some(deadline);
    if (options_.meeting_news)
      tell_missing(missing());
    if (departure_.failure() && give_up == clock::time_point::max())
      give_up = clock::now() + rest_of_meeting;
    if (departure_.failure())
      meeting_->wait_no_more_for(departure_.culprit());
    if (deadline.abort.raised() || clock::now() >= deadline.deadline)
      break;
  }
  if (departure_.guessed())
    hear_out();
  error problem = departure_.reason_to_stop(deadline, deadline.deadline);
  if (meeting_->complete() && !departure_.failure())
    return {};
  if (problem.kind == error_kind::timed_out)
    problem.text += "; " + missing();
  return problem;
}

std::string tcp_messenger::missing() const {
  for (std::int32_t peer = 0; peer < members_; ++peer)
    if (!meeting_->has_met(peer)) {
      const auto refused = refusals();
      return "it has not met " + departure_.name_of(peer) + ": " + meeting_->trouble(peer) +
             (refused.empty() ? "" : "; " + refused);
    }
  return {};
}

std::string tcp_messenger::refusals() const {
  if (meeting_->refused() == 0)
    return {};
  return "the tcp path refused " + std::to_string(meeting_->refused()) + " connections at its listener " +
         address_ + ", of which nothing was taken; the last: " + meeting_->last_refused();
}

void tcp_messenger::tell_missing(const std::string& missing) {
  if (missing != told_missing_ && options_.meeting_news)
    options_.meeting_news(missing);
  told_missing_ = missing;
}

void tcp_messenger::meet_some(const deadline_and_abort& deadline) {
  polls_.clear();
  meeting_->watch(polls_);
  const std::size_t strangers = polls_.size();
  for (const auto& channel : channels_)
    if (channel && channel->wants_to_read())
      polls_.push_back({channel->socket(), POLLIN, 0});
  ::poll(polls_.data(), polls_.size(), milliseconds_until(deadline.deadline, longest_slice_ms));
  const auto polled = polls_; // turn_without_polling() and others may reuse polls_
  turn_without_polling();
  meeting_->step(std::span{polled}.first(strangers), clock::now());
  for (met_peer& peer : meeting_->take_met())
    channels_[static_cast<std::size_t>(peer.rank)] =
        std::make_unique<tcp_channel>(std::move(peer.socket), peer.keys, peer.early);
  while (auto failure = meeting_->take_failure())
    departure_.lose_connection(failure->rank, failure->reason);
}

// ---- messages ------------------------------------------------------------------------------------

/// Returns null if the message can never complete. The ticket then stays pending, and the next wait()
/// returns the reason.
tcp_channel* tcp_messenger::channel_to(std::int32_t peer, message_ticket& ticket) {
  tcp_channel* channel = closed_ ? nullptr : channels_[static_cast<std::size_t>(peer)].get();
  if (channel != nullptr && !departure_.failure())
    return channel;
  ++ticket.pending;
  return nullptr;
}

void tcp_messenger::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                         message_ticket& ticket) {
  if (tcp_channel* channel = channel_to(peer, ticket)) {
    channel->send(phase, sequence_, bytes, ticket);
    heed(peer);
  }
}

void tcp_messenger::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                            message_ticket& ticket) {
  if (tcp_channel* channel = channel_to(peer, ticket)) {
    channel->receive(phase, sequence_, bytes, ticket);
    heed(peer);
  }
}

void tcp_messenger::look() {
  if (!closed_)
    turn(0);
}

error tcp_messenger::wait(const message_ticket& ticket, const deadline_and_abort& deadline) {
  return wait_for([&] { return ticket.pending == 0; }, deadline);
}

error tcp_messenger::flush(const deadline_and_abort& deadline) {
  return wait_for(
      [&] {
        return std::none_of(channels_.begin(), channels_.end(),
                            [](const auto& channel) { return channel && channel->unsent(); });
      },
      deadline);
}

error tcp_messenger::wait_for(const std::function<bool()>& done, const deadline_and_abort& deadline) {
  int slice_ms = 1;
  progress_deadline limit(deadline.deadline, timeout_, clock::now());
  for (unsigned round = 0;; ++round) {
    if (!closed_ && done())
      return {};
    const bool moved = !closed_ && turn(0);
    if (moved)
      limit.progressed(clock::now());
    if (moved && round % 64 != 0 && !departure_.failure() && !deadline.abort.raised())
      continue;
    if (!closed_ && done())
      return {};
    if (departure_.guessed())
      hear_out();
    if (error problem = departure_.reason_to_stop(deadline, limit.at())) {
      departure_.fail(problem);
      tear_down();
      return problem;
    }
    if (moved) {
      slice_ms = 1;
      continue;
    }
    const auto begun = clock::now();
    const bool found = look_before_sleep() || turn(milliseconds_until(limit.at(), slice_ms));
    const auto ended = clock::now();
    if (found)
      limit.progressed(ended);
    slice_ms = found ? 1 : std::min(slice_ms + 1, longest_slice_ms);
    waited_ += ended - begun;
  }
}

bool tcp_messenger::look_before_sleep() {
  if (!options_.spins && !yield_policy_.pays())
    return false;
  const auto start = clock::now();
  yield_policy::report report;
  while (!report.found && report.all < wake_up_time) {
    if (!options_.spins)
      sched_yield();
    report.found = turn(0);
    const auto before = report.all;
    report.all = clock::now() - start;
    report.longest = std::max(report.longest, report.all - before);
  }
  if (!options_.spins)
    yield_policy_.saw(report);
  return report.found;
}

bool tcp_messenger::turn(int patience_ms) {
  if (patience_ms == 0 && members_ <= few_members)
    return turn_without_polling();
  polls_.clear();
  bool moved = false;
  for (std::int32_t peer = 0; peer < members_; ++peer)
    if (tcp_channel* channel = channels_[static_cast<std::size_t>(peer)].get();
        channel != nullptr && channel->holds_chunk()) {
      moved = channel->read() || moved;
      heed(peer);
    }
  if (moved)
    return true;
  for (const auto& channel : channels_) {
    short events = 0;
    if (channel && channel->wants_to_read())
      events |= POLLIN;
    if (channel && channel->wants_to_write())
      events |= POLLOUT;
    polls_.push_back({events != 0 ? channel->socket() : -1, events, 0});
  }
  if (::poll(polls_.data(), polls_.size(), patience_ms) <= 0)
    return false;
  for (std::int32_t peer = 0; peer < members_; ++peer) {
    const short found = polls_[static_cast<std::size_t>(peer)].revents;
    if (found == 0)
      continue;
    tcp_channel& channel = *channels_[static_cast<std::size_t>(peer)];
    if ((found & POLLOUT) != 0)
      moved = channel.write() || moved;
    if ((found & ~POLLOUT) != 0)
      moved = channel.read() || moved;
    heed(peer);
  }
  return moved;
}

bool tcp_messenger::turn_without_polling() {
  bool moved = false;
  for (std::int32_t peer = 0; peer < members_; ++peer)
    if (tcp_channel* channel = channels_[static_cast<std::size_t>(peer)].get()) {
      moved = channel->write() || moved;
      moved = channel->read() || moved;
      heed(peer);
    }
  return moved;
}

// ---- which member to blame ------------------------------------------------------------------------------

void tcp_messenger::heed(std::int32_t peer) {
  const tcp_channel& channel = *channels_[static_cast<std::size_t>(peer)];
  if (channel.heard_goodbye()) {
    departure_.receive_goodbye(peer, channel.heard());
    if (channel.pending())
      departure_.require(peer);
  } else if (channel.end().cheated) {
    departure_.accuse(peer, channel.end().reason);
  } else if (!channel.end().reason.empty()) {
    departure_.lose_connection(peer, channel.end().reason);
  }
}

void tcp_messenger::hear_out() {
  const auto end = clock::now() + departure_.goodbye_wait();
  for (const auto& channel : channels_)
    if (channel)
      channel->seek_goodbye();
  while (departure_.guessed() && clock::now() < end) {
    if (meeting_)
      turn_without_polling();
    turn(milliseconds_until(end, 1));
  }
  departure_.settle();
}

// ---- the end -------------------------------------------------------------------------------------

void tcp_messenger::give_up(const error& reason) {
  departure_.fail(reason);
  leave();
}

void tcp_messenger::leave() {
  if (!closed_)
    tear_down();
}

/// Sends the goodbyes and closes all connections. Afterwards no peer can reach the caller's buffers.
void tcp_messenger::tear_down() {
  closed_ = true;
  const goodbye_round parting = departure_.leave();
  const bool in_order = parting.message.culprit == goodbye::in_order;
  const auto end = clock::now() + parting.patience;
  std::vector<tcp_channel*> told;
  for (const std::int32_t peer : parting.recipients) {
    tcp_channel* channel = channels_[static_cast<std::size_t>(peer)].get();
    if (channel == nullptr || channel->end().reached)
      continue;
    channel->say_goodbye(parting.message);
    told.push_back(channel);
  }
  // Closing a socket with unread bytes resets the connection, which drops sent bytes that the peer's host
  // has not acknowledged. So unread bytes are discarded first, and after a failure this member also waits
  // for the acknowledgement. When a member leaves in order, no peer sends it anything any more.
  const auto on_its_way = [&](tcp_channel* channel) {
    channel->write();
    channel->discard();
    return in_order ? channel->wants_to_write() : !channel->flushed();
  };
  while (std::any_of(told.begin(), told.end(), on_its_way) && clock::now() < end)
    ::poll(nullptr, 0, 1);
  for (tcp_channel* channel : told)
    channel->finish();
  for (auto& channel : channels_)
    if (channel)
      channel->close();
  meeting_.reset();
  listener_.close();
}

} // namespace farandole
