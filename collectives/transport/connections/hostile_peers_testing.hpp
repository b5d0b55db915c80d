// A test suite for the listeners of a job under attack by hostile peers. Each case combines a listener, the
// state of its honest peers and the behaviour of a hostile peer. In each case:
//
// - the hostile peer is refused in time, or at the latest when the listener ends
// - the log names the hostile peer in few lines
// - no descriptor stays open
// - honest peers are served, both those that were there before and those that connect later
#pragma once

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/connections/stranger_testing.hpp"

namespace farandole::testing {

/// The progress of the listener's honest peers when hostile ones connect.
enum class job_state : std::uint8_t {
  hello_awaited, ///< none of them has connected
  in_handshake,  ///< one has sent its hello and got an answer
  joined,        ///< one has joined
  regrouping,    ///< the members of an ended generation reconnect, and not all have done so
  ending,        ///< one has joined, and the listener ends
};
inline constexpr std::array<const char*, 5> state_names{"hello awaited", "in handshake", "joined",
                                                        "regrouping", "ending"};

enum class behaviour : std::uint8_t {
  silence,        ///< a connection without any data
  garbage,        ///< bytes of no protocol
  half_a_hello,   ///< the first half of a valid hello
  half_handshake, ///< a valid hello, which may have been recorded, and no data after it
  lie,            ///< the complete handshake of a member, then data that no member sends
  flood,          ///< many silent connections
};
inline constexpr std::array<const char*, 6> behaviour_names{
    "silence", "garbage", "half a hello", "half a handshake", "a right handshake and a lie", "a flood"};

inline constexpr std::size_t flood_size = 300;
/// The number of a flood's connections that the listener may keep until it ends.
inline constexpr std::size_t flood_kept = 256;

/// One listener in one of the states.
class attacked_listener {
public:
  virtual ~attacked_listener() = default;

  virtual stranger connect() = 0;
  /// The first bytes of a valid handshake.
  virtual std::vector<std::byte> first_words() = 0;
  /// Completes the handshake of a member, then sends data that no member sends.
  virtual void lie(const stranger& liar) = 0;

  /// Runs a step of a listener that has no thread of its own.
  virtual void go_on() {}
  /// Advances the clock past the deadlines of hostile peers, if the test controls the clock.
  virtual void pass_deadlines() {}
  /// Whether the listener refuses such peers before it ends.
  virtual bool refuses(behaviour) const { return true; }

  /// Continues the honest peers of the state, and checks that they are served.
  virtual void serve() = 0;
  /// Connects another honest peer, and checks that it is served.
  virtual void serve_another() = 0;
  /// Ends the listener, and waits until it has ended.
  virtual void end() = 0;

  /// Waits until the log names the peer and the reason for its refusal. Returns false on timeout, and true
  /// for a listener that logs nothing.
  virtual bool has_logged(const stranger& peer, behaviour reason) = 0;
  /// Number of human-readable lines in the log so far.
  virtual std::size_t lines_logged() = 0;
};

struct listener_row {
  const char* name;
  std::function<std::unique_ptr<attacked_listener>(job_state, behaviour)> make;
};

template <class Listener>
listener_row row_of(const char* name) {
  return {name, [](job_state state, behaviour attack) { return std::make_unique<Listener>(state, attack); }};
}

/// Number of lines of one kind that a log may have: the single lines, and the one that counts the rest.
inline constexpr std::size_t most_lines = 4;

inline std::deque<stranger> attack(attacked_listener& target, behaviour behaviour) {
  std::deque<stranger> attackers;
  const std::size_t count = behaviour == behaviour::flood ? flood_size : 1;
  for (std::size_t i = 0; i < count; ++i) {
    attackers.push_back(target.connect());
    target.go_on();
  }
  const stranger& first = attackers.front();
  switch (behaviour) {
  case behaviour::silence:
  case behaviour::flood:
    break;
  case behaviour::garbage:
    first.say(std::string(100, 'Z'));
    break;
  case behaviour::half_a_hello: {
    const auto hello = target.first_words();
    first.say(std::span{hello}.first(hello.size() / 2));
    break;
  }
  case behaviour::half_handshake:
    first.say(target.first_words());
    break;
  case behaviour::lie:
    target.lie(first);
  }
  target.go_on();
  return attackers;
}

/// Waits until the listener has closed the connection of `peer`.
inline bool is_refused(attacked_listener& by, const stranger& peer) {
  constexpr int step_ms = 10;
  for (int waited_ms = 0; waited_ms < patience_ms; waited_ms += step_ms) {
    by.go_on();
    if (peer.refused())
      return true;
    peer.ready(POLLIN, step_ms);
  }
  return false;
}

inline void play(const listener_row& row, job_state state, behaviour behaviour) {
  const auto target = row.make(state, behaviour);
  const auto lines_before = target->lines_logged();
  auto attackers = attack(*target, behaviour);
  if (state == job_state::ending) {
    target->end();
    for (const stranger& attacker : attackers)
      CHECK(is_refused(*target, attacker));
    CHECK(target->lines_logged() <= lines_before + most_lines);
    return;
  }
  target->serve();
  target->pass_deadlines();
  if (target->refuses(behaviour)) {
    const std::size_t refused = behaviour == behaviour::flood ? flood_size - flood_kept : 1;
    for (std::size_t i = 0; i < refused; ++i)
      CHECK(is_refused(*target, attackers[i]));
    CHECK(target->has_logged(attackers.front(), behaviour));
  }
  target->serve_another();
  target->end();
  for (const stranger& attacker : attackers)
    CHECK(is_refused(*target, attacker));
  CHECK(target->lines_logged() <= lines_before + most_lines);
}

/// The suite: a section for each cell of listener, state and behaviour.
inline void besiege(const std::vector<listener_row>& listeners) {
  for (const listener_row& row : listeners)
    for (std::size_t state = 0; state < state_names.size(); ++state)
      for (std::size_t index = 0; index < behaviour_names.size(); ++index)
        DYNAMIC_SECTION(row.name << ", " << state_names[state] << ": " << behaviour_names[index]) {
          const auto before = open_descriptors();
          play(row, static_cast<job_state>(state), static_cast<behaviour>(index));
          CHECK(open_descriptors() == before);
        }
}

} // namespace farandole::testing
