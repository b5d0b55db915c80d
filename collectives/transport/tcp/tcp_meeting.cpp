#include "collectives/transport/tcp/tcp_meeting.hpp"

#include <cassert>
#include <cerrno>
#include <set>
#include <utility>

#include "collectives/transport/connections/sockets.hpp"
#include "messages/values/backoff.hpp"

namespace farandole {
namespace {

constexpr backoff between_calls{std::chrono::milliseconds{5}, std::chrono::milliseconds{200}};

std::string seconds_of(std::chrono::milliseconds span) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(span).count()) + " s";
}

} // namespace

tcp_meeting::tcp_meeting(descriptor listener, std::shared_ptr<const tls_credentials> credentials,
                         const channel_group& group, chunk_suite preferred, const meeting_limits& bounds)
    : credentials_(std::move(credentials)), group_(group), preferred_(preferred), bounds_(bounds),
      listener_(std::move(listener), credentials_, group, preferred, bounds.callers),
      met_(static_cast<std::size_t>(group.members)), missing_(group.members - 1),
      gone_(static_cast<std::size_t>(group.members)) {
  met_[static_cast<std::size_t>(group.rank)] = true;
}

error tcp_meeting::call(std::span<const std::string> addresses, clock::time_point current_time) {
  assert(addresses.size() == met_.size() && calls_.empty());
  std::set<std::string> callers;
  for (std::size_t rank = static_cast<std::size_t>(group_.rank) + 1; rank < addresses.size(); ++rank)
    callers.insert(source_of(addresses[rank]));
  listener_.expect(std::move(callers));
  for (std::int32_t rank = 0; rank < group_.rank; ++rank) {
    auto address = tcp_address::parse(addresses[static_cast<std::size_t>(rank)]);
    if (!address)
      return address.error();
    addresses_.push_back(std::move(*address));
    outgoing_call to;
    to.rank = rank;
    calls_.push_back(std::move(to));
  }
  for (outgoing_call& to : calls_)
    dial(to, current_time);
  return {};
}

// ---- calling -------------------------------------------------------------------------------------

void tcp_meeting::dial(outgoing_call& to, clock::time_point current_time) {
  const tcp_address& address = addresses_[static_cast<std::size_t>(to.rank)];
  int number = 0;
  to.since = current_time;
  auto socket = start_connecting(address.ip, address.port, &number);
  if (!socket) {
    refuse_or_retry(to, number, socket.error().text, current_time);
    return;
  }
  to.talk = {};
  to.talk.socket = std::move(*socket);
  to.talk.handshake = channel_handshake::call(credentials_, group_, preferred_, to.rank);
  to.connecting = true;
}

/// A member listens before it publishes its address and until this member has connected to it. A refused
/// connection therefore means that the member is gone; other errors are retried.
void tcp_meeting::refuse_or_retry(outgoing_call& to, int number, const std::string& reason,
                                  clock::time_point current_time) {
  if (number == ECONNREFUSED)
    lose(to, reason);
  else
    hang_up(to, reason, current_time);
}

void tcp_meeting::lose(outgoing_call& to, const std::string& reason) {
  to.talk.socket.close();
  to.next_call = clock::time_point::max();
  failures_.push_back({to.rank, reason});
  wait_no_more_for(to.rank);
}

void tcp_meeting::wait_no_more_for(std::int32_t rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (met_[at] || gone_[at])
    return;
  gone_[at] = true;
  ++lost_;
}

void tcp_meeting::hang_up(outgoing_call& to, const std::string& reason, clock::time_point current_time) {
  to.talk.socket.close();
  to.trouble = reason;
  to.next_call = current_time + between_calls.before_try(to.hang_ups++);
}

void tcp_meeting::step_call(outgoing_call& to, short events, clock::time_point current_time) {
  if (met_[static_cast<std::size_t>(to.rank)])
    return;
  if (!to.talk.socket) {
    if (current_time >= to.next_call && to.next_call != clock::time_point::max())
      dial(to, current_time);
    return;
  }
  if (current_time - to.since > bounds_.call) {
    hang_up(to, progress(to) + " within " + seconds_of(bounds_.call), current_time);
    return;
  }
  if (events == 0)
    return;
  if (to.connecting) {
    if (const int number = connect_result(to.talk.socket.get()); number != 0) {
      refuse_or_retry(to, number, text_of_errno(number), current_time);
      return;
    }
    to.connecting = false;
    auto spoken = to.talk.handshake->feed({}, to.talk.wire);
    assert(spoken);
  }
  if (const error problem = to.talk.advance()) {
    // The peer knows the job's secret but is not the expected member; a retry would not help.
    if (problem.kind == error_kind::precondition && to.talk.handshake->proved())
      lose(to, problem.text);
    else
      hang_up(to, problem.text, current_time);
  } else if (to.talk.done()) {
    settle(to.talk.finish());
  }
}

std::string tcp_meeting::progress(const outgoing_call& to) const {
  if (to.connecting)
    return "its host did not answer";
  return to.talk.spoke ? "it did not prove that it knows the job's secret"
                       : "it accepted the connection and said nothing";
}

// ---- both ----------------------------------------------------------------------------------------

void tcp_meeting::settle(met_peer peer) {
  met_[static_cast<std::size_t>(peer.rank)] = true;
  --missing_;
  fresh_.push_back(std::move(peer));
}

void tcp_meeting::watch(std::vector<pollfd>& polls) const {
  listener_.watch(polls);
  for (const outgoing_call& to : calls_) {
    const short events = to.connecting ? POLLOUT : to.talk.events();
    polls.push_back({to.talk.socket.get(), events, 0});
  }
}

void tcp_meeting::step(std::span<const pollfd> polled, clock::time_point current_time) {
  const std::size_t watched = listener_.watched();
  assert(polled.size() == watched + calls_.size());
  for (std::size_t at = 0; at < calls_.size(); ++at)
    step_call(calls_[at], polled[watched + at].revents, current_time);
  listener_.step(polled.first(watched), current_time);
  for (met_peer& peer : listener_.take_proven()) {
    const auto at = static_cast<std::size_t>(peer.rank);
    if (met_[at] || gone_[at])
      listener_.refuse(peer.socket.get(), "the member has been met already");
    else
      settle(std::move(peer));
  }
}

std::vector<met_peer> tcp_meeting::take_met() {
  return std::exchange(fresh_, {});
}

std::optional<tcp_meeting::failure> tcp_meeting::take_failure() {
  if (failures_.empty())
    return {};
  failure first = std::move(failures_.front());
  failures_.erase(failures_.begin());
  return first;
}

std::string tcp_meeting::trouble(std::int32_t rank) const {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= calls_.size())
    return "it has not called";
  const outgoing_call& to = calls_[at];
  return "called at " + addresses_[at].text() + ", " + (to.trouble.empty() ? progress(to) : to.trouble);
}

} // namespace farandole
