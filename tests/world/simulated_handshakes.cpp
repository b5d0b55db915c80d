// The end of dialling in the simulated network if an impostor or a fault disturbs the handshake, as in
// actors/event_loop/link.cpp.
#include <algorithm>
#include <utility>

#include "tests/world/simulated_net.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds connect_timeout{10};
constexpr milliseconds stranger_pause{200};

std::string ip_of(const std::string& location) {
  return location.substr(0, location.rfind(':'));
}

} // namespace

handshake_verdict simulated_net::verdict_between(process_id from, process_id to) const {
  for (const auto rank : {from, to})
    if (const auto found = disturbed_.find(rank); found != disturbed_.end())
      return found->second;
  return handshake_verdict::accepted;
}

void simulated_net::disturb(process_id process, handshake_verdict verdict) {
  if (verdict == handshake_verdict::accepted)
    disturbed_.erase(process);
  else
    disturbed_[process] = verdict;
}

void simulated_net::impersonate(const std::string& location, handshake_verdict verdict) {
  if (verdict == handshake_verdict::accepted)
    impostors_.erase(location);
  else
    impostors_[location] = verdict;
}

void simulated_net::conclude(call call, handshake_verdict verdict) {
  const auto soon = takes(call.from, call.from);
  switch (verdict) {
  case handshake_verdict::accepted:
    return;
  case handshake_verdict::hangs_up:
    return dial_again(std::move(call));
  case handshake_verdict::silence:
    return later(connect_timeout, [this, failed_call = std::move(call)] {
      fail(failed_call, "no proof of the secret within connect timeout");
    });
  case handshake_verdict::not_tls:
  case handshake_verdict::wrong_secret:
    return later(soon, [this, verdict, failed_call = std::move(call)] {
      if (!linked_.contains(failed_call.from))
        mistaken_at_first_.insert(failed_call.from);
      fail(failed_call,
           verdict == handshake_verdict::not_tls ? "TLS handshake failed: wrong version number"
                                                 : "the peer does not have the same secret",
           true);
    });
  }
}

// A process whose connection closes before the link is open dials again until the connect timeout has passed.
void simulated_net::dial_again(call call) {
  if (ended(call.from))
    return;
  const auto wait = call.again.next(world_.now(), 0);
  if (!wait)
    return fail(call, "the peer hung up before the link was open");
  later(*wait, [this, failed_call = std::move(call)] { connect(failed_call); });
}

// Without other connections the handshake takes no time.
void simulated_net::shake_hands(call call, const listener& to) {
  if (to.handshakes->idle())
    return open(call, to);
  caller caller_entry;
  caller_entry.source = address_of(call.from);
  caller_entry.hello = takes(call.from, to.process);
  caller_entry.ends = takes(call.from, to.process) + takes(to.process, call.from);
  caller_entry.evicted = [this, call] { dial_again(call); };
  caller_entry.shaken = [this, call, to = listener{to.process, to.owner, nullptr}] {
    if (!ended(call.from) && !ended(to.process))
      open(call, to);
    else if (!ended(call.from))
      dial_again(call);
  };
  to.handshakes->connect(std::move(caller_entry));
}

// ---- unauthenticated peers -----------------------------------------------------------------------

void simulated_net::crowd(process_id process, std::size_t strangers, stranger_kind kind,
                          caf::actor_clock::time_point deadline, std::uint64_t pick) {
  dice draw(pick);
  for (const auto& [location, all] : listeners_)
    if (std::any_of(all.begin(), all.end(),
                    [&](const listener& listener) { return listener.process == process; }))
      for (std::size_t i = 0; i < strangers; ++i) {
        const auto wait = std::chrono::microseconds(draw.below(100'000));
        later(wait, [this, where = location, process, kind, deadline, seed = draw.next()] {
          send_stranger(where, process, kind, deadline, seed);
        });
      }
}

// The peer is silent, sends half a hello, only a hello, garbage, or a wrong secret that is detected at once.
// It connects from an address of its own, from one of a few, or from that of a member.
void simulated_net::send_stranger(const std::string& location, process_id process, stranger_kind kind,
                                  caf::actor_clock::time_point deadline, std::uint64_t pick) {
  const auto& all = listeners_[location];
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const listener& listener) { return listener.process == process; });
  if (found == all.end() || ended(process) || world_.now() >= deadline)
    return;
  dice draw(pick);
  caller stranger;
  const std::string sources[] = {"192.0.2." + std::to_string(draw.below(250)),
                                 "192.0.2." + std::to_string(draw.below(3)), ip_of(location),
                                 address_of(1 + static_cast<process_id>(draw.below(3)))};
  stranger.source = sources[draw.below(std::size(sources))];
  if (kind == stranger_kind::any && !draw.one_in(3))
    stranger.hello = takes(process, process);
  if (stranger.hello && draw.one_in(2))
    stranger.ends = takes(process, process);
  const auto comes_again = [this, location, process, kind, deadline, seed = draw.next()] {
    later(stranger_pause, [=, this] { send_stranger(location, process, kind, deadline, seed); });
  };
  stranger.shaken = stranger.evicted = comes_again;
  found->handshakes->connect(std::move(stranger));
}

} // namespace farandole::testing
