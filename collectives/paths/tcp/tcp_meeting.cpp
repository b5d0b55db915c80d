#include "collectives/paths/tcp/tcp_meeting.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "collectives/paths/connections/sockets.hpp"

namespace farandole {
namespace {

constexpr std::chrono::milliseconds longest_backoff{200};
/// Callers that are let in before anything else is looked at.
constexpr int callers_at_once = 64;

} // namespace

tcp_meeting::tcp_meeting(descriptor listener, std::shared_ptr<const tls_credentials> credentials,
                         const channel_group& group, chunk_suite preferred, const meeting_limits& bounds)
    : listener_(std::move(listener)), credentials_(std::move(credentials)), group_(group),
      preferred_(preferred), bounds_(bounds), met_(static_cast<std::size_t>(group.members)),
      missing_(group.members - 1), gone_(static_cast<std::size_t>(group.members)) {
  met_[static_cast<std::size_t>(group.rank)] = true;
}

error tcp_meeting::call(std::span<const std::string> addresses, clock::time_point now) {
  assert(addresses.size() == met_.size() && calls_.empty());
  for (std::int32_t rank = 0; rank < group_.rank; ++rank) {
    auto address = tcp_address::parse(addresses[static_cast<std::size_t>(rank)]);
    if (!address)
      return address.error();
    addresses_.push_back(std::move(*address));
    talk to;
    to.rank = rank;
    calls_.push_back(std::move(to));
  }
  for (talk& to : calls_)
    dial(to, now);
  return {};
}

// ---- calling -------------------------------------------------------------------------------------

void tcp_meeting::dial(talk& to, clock::time_point now) {
  const tcp_address& address = addresses_[static_cast<std::size_t>(to.rank)];
  int number = 0;
  auto socket = start_connecting(address.ip, address.port, &number);
  if (!socket) {
    refuse_or_retry(to, number, socket.error().text, now);
    return;
  }
  to.socket = std::move(*socket);
  to.connecting = true;
  to.handshake = channel_handshake::call(credentials_, group_, preferred_, to.rank);
  to.wire.clear();
}

/// A member listens when it tells its address, and stops only once it has met this one.
void tcp_meeting::refuse_or_retry(talk& to, int number, const std::string& why, clock::time_point now) {
  if (number == ECONNREFUSED)
    lose(to, why);
  else
    hang_up(to, why, now);
}

void tcp_meeting::lose(talk& to, const std::string& why) {
  to.socket.close();
  to.next_call = clock::time_point::max();
  failures_.push_back({to.rank, why});
  wait_no_more_for(to.rank);
}

void tcp_meeting::wait_no_more_for(std::int32_t rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (met_[at] || gone_[at])
    return;
  gone_[at] = true;
  ++lost_;
}

void tcp_meeting::hang_up(talk& to, const std::string& why, clock::time_point now) {
  to.socket.close();
  to.handshake.reset();
  to.trouble = why;
  to.next_call = now + to.backoff;
  to.backoff = std::min(to.backoff * 2, longest_backoff);
}

void tcp_meeting::step_call(talk& to, short events, clock::time_point now) {
  if (met_[static_cast<std::size_t>(to.rank)])
    return;
  if (!to.socket) {
    if (now >= to.next_call && to.next_call != clock::time_point::max())
      dial(to, now);
    return;
  }
  if (events == 0)
    return;
  if (to.connecting) {
    if (const int number = connect_result(to.socket.get()); number != 0) {
      refuse_or_retry(to, number, text_of_errno(number), now);
      return;
    }
    to.connecting = false;
    auto spoken = to.handshake->feed({}, to.wire);
    assert(spoken);
  }
  std::vector<std::byte> early;
  if (const error problem = advance(to, early)) {
    // The peer has proved that it is a member, and is not the one that was announced.
    if (problem.kind == error_kind::precondition && to.handshake->proved())
      lose(to, problem.text);
    else
      hang_up(to, problem.text, now);
    return;
  }
  if (to.handshake->done() && to.wire.empty())
    settle(to, std::move(early));
}

// ---- being called --------------------------------------------------------------------------------

void tcp_meeting::accept_callers(clock::time_point now) {
  for (int count = 0; count < callers_at_once; ++count) {
    auto accepted = accept_one(listener_.get());
    if (!accepted.socket)
      return; // nobody is there, or descriptors are short: then it is tried again
    if (callers_.size() >= bounds_.places + met_.size())
      make_place();
    talk with;
    with.socket = std::move(accepted.socket);
    with.handshake = channel_handshake::answer(credentials_, group_, preferred_);
    with.since = now;
    callers_.push_back(std::move(with));
    step_caller(callers_.back()); // mostly its first words are there already
  }
}

/// Of those who have said nothing, if there are any, the oldest.
void tcp_meeting::make_place() {
  const auto oldest = std::min_element(callers_.begin(), callers_.end(), [](const talk& a, const talk& b) {
    return std::pair{!a.silent, a.since} < std::pair{!b.silent, b.since};
  });
  callers_.erase(oldest);
}

void tcp_meeting::step_caller(talk& with) {
  std::vector<std::byte> early;
  const error problem = advance(with, early);
  const bool done = !problem && with.handshake->done() && with.wire.empty();
  const auto peer = static_cast<std::size_t>(done ? with.handshake->peer() : group_.rank);
  const bool again = done && (met_[peer] || gone_[peer]);
  if (problem || again) {
    // Who only closes the connection has said nothing worth telling.
    if (problem.kind == error_kind::precondition || with.spoke) {
      ++refused_;
      last_refused_ =
          peer_of(with.socket.get()) + ": " + (again ? "the member has been met already" : problem.text);
    }
    with.socket.close();
  } else if (done) {
    settle(with, std::move(early));
  }
}

// ---- both ----------------------------------------------------------------------------------------

error tcp_meeting::advance(talk& with, std::vector<std::byte>& early) {
  std::array<std::byte, 2048> received;
  while (!with.handshake->done()) {
    const ssize_t got = ::recv(with.socket.get(), received.data(), received.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (got <= 0)
      return {error_kind::disconnected, got == 0
                                            ? "it has closed the connection before it had proved who it is"
                                            : text_of_errno(errno)};
    with.spoke = true;
    const auto part = std::span{received}.first(static_cast<std::size_t>(got));
    auto taken = with.handshake->feed(part, with.wire);
    if (!taken) {
      send_wire(with); // perhaps the peer learns why
      return taken.error();
    }
    // Whoever is called answers a whole hello made with the job's key, and nothing less.
    with.silent = with.silent && with.wire.empty();
    const auto rest = part.subspan(*taken);
    early.assign(rest.begin(), rest.end());
  }
  return send_wire(with);
}

error tcp_meeting::send_wire(talk& with) {
  while (!with.wire.empty()) {
    const ssize_t sent =
        ::send(with.socket.get(), with.wire.data(), with.wire.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK ? error{}
                                                     : error{error_kind::disconnected, text_of_errno(errno)};
    with.wire.erase(with.wire.begin(), with.wire.begin() + sent);
  }
  return {};
}

void tcp_meeting::settle(talk& with, std::vector<std::byte> early) {
  const std::int32_t rank = with.handshake->peer();
  met_[static_cast<std::size_t>(rank)] = true;
  --missing_;
  fresh_.push_back({rank, std::move(with.socket), with.handshake->keys(), std::move(early)});
}

pollfd tcp_meeting::poll_of(const talk& with) {
  const bool writes = with.connecting || !with.wire.empty();
  return {with.socket ? with.socket.get() : -1, static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0};
}

void tcp_meeting::watch(std::vector<pollfd>& polls) const {
  polls.push_back({listener_.get(), POLLIN, 0});
  for (const talk& with : callers_)
    polls.push_back(poll_of(with));
  for (const talk& to : calls_)
    polls.push_back(poll_of(to));
}

void tcp_meeting::step(std::span<const pollfd> polled, clock::time_point now) {
  assert(polled.size() == 1 + callers_.size() + calls_.size());
  for (std::size_t at = 0; at < callers_.size(); ++at)
    if (polled[1 + at].revents != 0)
      step_caller(callers_[at]);
  for (std::size_t at = 0; at < calls_.size(); ++at)
    step_call(calls_[at], polled[1 + callers_.size() + at].revents, now);
  std::erase_if(callers_, [&](const talk& with) {
    return !with.socket || now - with.since > (with.silent ? bounds_.silence : bounds_.handshake);
  });
  if (polled[0].revents != 0)
    accept_callers(now);
  std::erase_if(callers_, [](const talk& with) { return !with.socket; });
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
  return at < calls_.size() ? calls_[at].trouble : std::string{};
}

} // namespace farandole
