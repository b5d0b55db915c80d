// How dialling comes to its end in the simulated network, where somebody is in the way: what
// actors/kit/link.cpp makes of it.
#include <algorithm>
#include <utility>

#include "tests/world/simulated_net.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds connect_timeout{10};
constexpr milliseconds stranger_pause{200};

std::string ip_of(const std::string& where) {
  return where.substr(0, where.rfind(':'));
}

} // namespace

handshake_verdict simulated_net::verdict_between(process_id from, process_id to) const {
  for (const auto who : {from, to})
    if (const auto found = disturbed_.find(who); found != disturbed_.end())
      return found->second;
  return handshake_verdict::accepted;
}

void simulated_net::disturb(process_id who, handshake_verdict verdict) {
  if (verdict == handshake_verdict::accepted)
    disturbed_.erase(who);
  else
    disturbed_[who] = verdict;
}

void simulated_net::impersonate(const std::string& where, handshake_verdict verdict) {
  if (verdict == handshake_verdict::accepted)
    impostors_.erase(where);
  else
    impostors_[where] = verdict;
}

void simulated_net::conclude(call what, handshake_verdict verdict) {
  const auto soon = takes(what.from, what.from);
  switch (verdict) {
  case handshake_verdict::accepted:
    return;
  case handshake_verdict::hangs_up:
    return dial_again(std::move(what));
  case handshake_verdict::silence:
    return later(connect_timeout, [this, what = std::move(what)] {
      fail(what, "no proof of the secret within connect timeout");
    });
  case handshake_verdict::not_tls:
  case handshake_verdict::wrong_secret:
    return later(soon, [this, verdict, what = std::move(what)] {
      if (!linked_.contains(what.from))
        mistaken_at_first_.insert(what.from);
      fail(what,
           verdict == handshake_verdict::not_tls ? "TLS handshake failed: wrong version number"
                                                 : "the peer does not have the same secret",
           true);
    });
  }
}

// Whoever is hung up on before the link is open dials again until the connect timeout has passed.
void simulated_net::dial_again(call what) {
  if (ended(what.from))
    return;
  const auto wait = what.again.next(world_.now(), 0);
  if (!wait)
    return fail(what, "the peer hung up before the link was open");
  later(*wait, [this, what = std::move(what)] { connect(what); });
}

// Where nobody else is there, it takes no time.
void simulated_net::shake_hands(call what, const listener& to) {
  if (to.handshakes->idle())
    return open(what, to);
  caller who;
  who.source = address_of(what.from);
  who.hello = takes(what.from, to.who);
  who.ends = takes(what.from, to.who) + takes(to.who, what.from);
  who.evicted = [this, what] { dial_again(what); };
  who.shaken = [this, what, to = listener{to.who, to.owner, nullptr}] {
    if (!ended(what.from) && !ended(to.who))
      open(what, to);
    else if (!ended(what.from))
      dial_again(what);
  };
  to.handshakes->connect(std::move(who));
}

// ---- strangers -----------------------------------------------------------------------------------

void simulated_net::crowd(process_id who, std::size_t strangers, stranger_kind kind,
                          caf::actor_clock::time_point until, std::uint64_t pick) {
  dice draw(pick);
  for (const auto& [where, all] : listeners_)
    if (std::any_of(all.begin(), all.end(), [&](const listener& one) { return one.who == who; }))
      for (std::size_t i = 0; i < strangers; ++i) {
        const auto wait = std::chrono::microseconds(draw.below(100'000));
        later(wait, [this, where = where, who, kind, until, seed = draw.next()] {
          send_stranger(where, who, kind, until, seed);
        });
      }
}

// Silent, half a hello that is never whole; a hello and nothing more; garbage, or a wrong secret, that is
// found out at once. From an address of its own, one of a few, or that of a member.
void simulated_net::send_stranger(const std::string& where, process_id who, stranger_kind kind,
                                  caf::actor_clock::time_point until, std::uint64_t pick) {
  const auto& all = listeners_[where];
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const listener& one) { return one.who == who; });
  if (found == all.end() || ended(who) || world_.now() >= until)
    return;
  dice draw(pick);
  caller stranger;
  const std::string sources[] = {"192.0.2." + std::to_string(draw.below(250)),
                                 "192.0.2." + std::to_string(draw.below(3)), ip_of(where),
                                 address_of(1 + static_cast<process_id>(draw.below(3)))};
  stranger.source = sources[draw.below(std::size(sources))];
  if (kind == stranger_kind::any && !draw.one_in(3))
    stranger.hello = takes(who, who);
  if (stranger.hello && draw.one_in(2))
    stranger.ends = takes(who, who);
  const auto comes_again = [this, where, who, kind, until, seed = draw.next()] {
    later(stranger_pause, [=, this] { send_stranger(where, who, kind, until, seed); });
  };
  stranger.shaken = stranger.evicted = comes_again;
  found->handshakes->connect(std::move(stranger));
}

} // namespace farandole::testing
