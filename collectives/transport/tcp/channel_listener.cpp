#include "collectives/transport/tcp/channel_listener.hpp"

#include <cassert>
#include <cerrno>
#include <utility>

#include "collectives/transport/connections/sockets.hpp"

namespace farandole {
namespace {

/// Maximum number of connections to accept in one step.
constexpr int callers_at_once = 64;

handshake_limits with_places_for(std::int32_t members, const handshake_limits& limits) {
  auto all = limits.within(descriptors_allowed());
  all.connections += static_cast<std::size_t>(members);
  return all;
}

} // namespace

channel_listener::channel_listener(descriptor socket, std::shared_ptr<const tls_credentials> credentials,
                                   const channel_group& group, chunk_suite preferred,
                                   const handshake_limits& limits)
    : socket_(std::move(socket)), credentials_(std::move(credentials)), group_(group), preferred_(preferred),
      limits_(with_places_for(group.members, limits)), table_(limits_) {}

void channel_listener::watch(std::vector<pollfd>& polls) const {
  polls.push_back({paused_until_ ? -1 : socket_.get(), POLLIN, 0});
  for (const auto& [which, caller] : callers_) {
    const bool in_queue = !caller.waits && !caller.talk.handshake;
    polls.push_back({in_queue ? -1 : caller.talk.socket.get(), caller.talk.events(), 0});
  }
}

void channel_listener::step(std::span<const pollfd> polled, clock::time_point current_time) {
  assert(polled.size() == watched());
  std::size_t at = 0;
  for (auto next = callers_.begin(); next != callers_.end();) {
    const auto position = next++;
    if (polled[++at].revents == 0)
      continue;
    hear(position->first, position->second);
    forget_if_closed(position->first);
  }
  for (const auto& eviction : table_.overdue(current_time))
    evict(eviction);
  if (paused_until_ && current_time >= *paused_until_)
    paused_until_.reset();
  if (polled[0].revents != 0)
    accept_callers(current_time);
  begin_handshakes(current_time);
}

void channel_listener::hear(number which, caller& from) {
  if (!from.waits)
    return advance(from);
  const auto state = look_for_first_record(from.talk.socket.get());
  if (state == first_record::gone)
    from.talk.socket.close(); // not counted as refused: it sent no complete record
  from.waits = state == first_record::missing;
  if (state == first_record::whole)
    table_.ready(which);
}

void channel_listener::accept_callers(clock::time_point current_time) {
  for (int count = 0; count < callers_at_once; ++count) {
    auto accepted = accept_one(socket_.get());
    if (!accepted.socket && accepted.error == ECONNABORTED)
      continue;
    if (!accepted.socket) {
      if (must_pause_accepting(accepted.error))
        paused_until_ = current_time + accept_pause;
      break;
    }
    const number which = ++next_;
    if (const auto evicted = table_.accept(which, source_of(accepted.peer), current_time))
      evict(*evicted);
    caller& from = callers_[which];
    from.talk.socket = std::move(accepted.socket);
    hear(which, from); // the first record has usually arrived already
    forget_if_closed(which);
  }
}

void channel_listener::begin_handshakes(clock::time_point current_time) {
  while (const auto next = table_.begin_next(current_time)) {
    caller& from = callers_.at(*next);
    from.talk.handshake = channel_handshake::answer(credentials_, group_, preferred_);
    advance(from);
    forget_if_closed(*next);
  }
}

void channel_listener::advance(caller& with) {
  if (const error problem = with.talk.advance()) {
    // A connection that closes without sending anything is not counted as refused.
    if (problem.kind == error_kind::precondition || with.talk.spoke)
      refuse(with.talk.socket.get(), problem.text);
    with.talk.socket.close();
  } else if (with.talk.done()) {
    proven_.push_back(with.talk.finish());
  }
}

void channel_listener::evict(const handshake_table::eviction& eviction) {
  const auto found = callers_.find(eviction.which);
  refuse(found->second.talk.socket.get(), text_of(eviction.cause, limits_));
  callers_.erase(found);
}

void channel_listener::forget_if_closed(number which) {
  if (callers_.at(which).talk.socket)
    return;
  table_.remove(which);
  callers_.erase(which);
}

void channel_listener::refuse(int socket, const std::string& reason) {
  ++refused_;
  last_refused_ = peer_of(socket) + ": " + reason;
}

std::vector<met_peer> channel_listener::take_proven() {
  return std::exchange(proven_, {});
}

} // namespace farandole
