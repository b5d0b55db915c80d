// The listeners of a job among hostile peers: one suite, whose cells are a listener, the state in which its
// honest peers are, and what hostile ones do. In each cell the hostile peer is turned away in time, or with
// the listener's end, the log names it in few lines, no descriptor stays open, and honest peers are served,
// both those that were there before and those that come later.
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

/// How far the honest peers of the listener are when hostile ones come.
enum class job_state : std::uint8_t {
  hello_awaited, ///< none of them has come
  in_handshake,  ///< one has said its hello, and has been answered
  joined,        ///< one is in
  regrouping,    ///< those of a generation that is over come again, and not all have come
  ending,        ///< one is in, and the listener ends
};
inline constexpr std::array<const char*, 5> state_names{"hello awaited", "in handshake", "joined",
                                                        "regrouping", "ending"};

enum class behaviour : std::uint8_t {
  silence,        ///< a connection, and nothing
  garbage,        ///< bytes of no protocol
  half_a_hello,   ///< the first half of a right one
  half_handshake, ///< a right hello, as may have been recorded, and nothing behind it
  lie,            ///< the whole handshake of a member, then what no member says
  flood,          ///< many silent connections
};
inline constexpr std::array<const char*, 6> behaviour_names{
    "silence", "garbage", "half a hello", "half a handshake", "a right handshake and a lie", "a flood"};

inline constexpr std::size_t flood_size = 300;
/// Of a flood's connections, the listener may keep so many until it ends.
inline constexpr std::size_t flood_kept = 256;

/// One listener in one of the states.
class attacked_listener {
public:
  virtual ~attacked_listener() = default;

  virtual stranger connect() = 0;
  /// Of a right handshake.
  virtual std::vector<std::byte> first_words() = 0;
  /// Does as a member does, and then what no member does.
  virtual void lie(const stranger& liar) = 0;

  /// Lets a listener without a thread of its own go on.
  virtual void go_on() {}
  /// The time that hostile peers have is over, where the test moves the clock.
  virtual void pass_deadlines() {}
  /// Whether it turns such peers away before it ends.
  virtual bool refuses(behaviour) const { return true; }

  /// The honest peers of the state go on, and get what they came for.
  virtual void serve() = 0;
  /// So does one that comes later.
  virtual void serve_another() = 0;
  /// Ends the listener, and waits until it has ended.
  virtual void end() = 0;

  /// Waits until its log names the peer and says what was wrong with it; false if that does not come, and
  /// true for a listener that logs nothing.
  virtual bool has_logged(const stranger& peer, behaviour reason) = 0;
  /// Lines of its log that are for people, so far.
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

/// Lines of one kind that a log has before it counts them, and the one with their number.
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

/// Waits until the listener has closed it.
inline bool is_refused(attacked_listener& by, const stranger& peer) {
  constexpr int looks = 3000;
  for (int look = 0; look < looks; ++look) {
    by.go_on();
    if (peer.refused())
      return true;
    peer.ready(POLLIN, 10);
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
