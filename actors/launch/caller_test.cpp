// The frames between a launcher and the program that has called it.
#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "actors/launch/caller_input.hpp"
#include "actors/launch/caller_output.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using farandole::testing::patience;
using farandole::testing::patience_ms;

namespace {

struct socket_pair {
  descriptor launcher, caller;

  socket_pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    launcher = descriptor{ends[0]};
    caller = descriptor{ends[1]};
  }

  /// Reads exactly so many bytes at the caller's end; fewer only at the deadline.
  std::string read(std::size_t size) const {
    std::string text;
    char buffer[4096];
    pollfd watched{caller.get(), POLLIN, 0};
    while (text.size() < size && ::poll(&watched, 1, patience_ms) == 1) {
      const auto count = ::read(caller.get(), buffer, std::min(sizeof buffer, size - text.size()));
      if (count <= 0)
        break;
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }
  void write(const std::string& bytes) const {
    REQUIRE(::write(caller.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
};

std::string frame(std::uint32_t slot, const std::string& bytes) {
  return frame_header{slot, static_cast<std::uint32_t>(bytes.size())}.encoded() + bytes;
}

/// A caller's input on a loop of its own, with one slot whose input the test receives.
struct input_side {
  loop_system system;
  std::promise<std::string> received;
  std::promise<void> ended;
  caller_input_actor actor;
  slot_actor fake;

  input_side(const socket_pair& sockets, std::size_t expected_bytes) {
    fake = system.get().spawn([this, expected_bytes, text = std::string()](
                                  slot_actor::pointer self) mutable -> slot_actor::behavior_type {
      return {
          [](start_atom) {},
          [](signal_atom, int) {},
          [this, expected_bytes, text, self](const slot_input& input) mutable {
            text += input.bytes;
            self->send(input.owner, slot_input_taken{4, channel_stream, input.bytes.size()});
            if (text.size() == expected_bytes)
              received.set_value(text);
          },
          [](ended_atom) {},
          [](output_atom, int) {},
          [](writable_atom, int) {},
          [](room_atom, int) {},
          [self](overdue_atom) { self->quit(); },
      };
    });
    actor = system.get().spawn(caller_input, sockets.launcher.get(), [this] { ended.set_value(); });
    caf::anon_send(actor, slot_made{4, fake});
  }
  ~input_side() {
    caf::anon_send(actor, close_atom::value);
    caf::anon_send(fake, overdue_atom::value);
  }
};

} // namespace

TEST_CASE("a frame is a slot and a length in little-endian order, and the bytes", "[caller]") {
  CHECK(frame(0x01020304, "abc") == std::string("\x04\x03\x02\x01\x03\0\0\0abc", 11));
  const auto header = frame_header::decoded(std::string("\x04\x03\x02\xff\x03\0\0\x01", 8));
  CHECK(header.slot == 0xff020304);
  CHECK(header.length == 0x01000003);
}

TEST_CASE("what workers write, and events as JSON, arrive at the caller", "[caller]") {
  const socket_pair sockets;
  caller_output output(sockets.launcher.get());
  output.started(4, "b\"1\n", 4711);
  output.waits_for_agents("10.0.0.1:7", "start them");
  output.agent_connected("b");
  output.retired(4);
  output.ended(4, "exited with code 3"); // reported after the slot's last bytes
  output.send(4, "hello");
  output.complete(4);
  output.timed_out();
  const auto expected =
      frame(caller_output::event_slot,
            R"({"event": "started", "slot": 4, "host": "b\"1\n", "process": 4711})") +
      frame(caller_output::event_slot,
            R"({"event": "waits for agents", "launcher": "10.0.0.1:7", "text": "start them"})") +
      frame(caller_output::event_slot, R"({"event": "agent connected", "host": "b"})") +
      frame(caller_output::event_slot, R"({"event": "retired", "slot": 4})") + frame(4, "hello") +
      frame(caller_output::event_slot, R"({"event": "ended", "slot": 4, "manner": "exited with code 3"})") +
      frame(caller_output::event_slot, R"({"event": "timed out"})");
  CHECK(sockets.read(expected.size()) == expected);
}

TEST_CASE("many bytes for the caller are cut into frames of bounded size", "[caller]") {
  const socket_pair sockets;
  caller_output output(sockets.launcher.get());
  output.send(0, std::string(caller_output::most_frame_bytes + 1, 'x'));
  const auto first = sockets.read(frame_header::size_bytes + caller_output::most_frame_bytes);
  CHECK(frame_header::decoded(first).length == caller_output::most_frame_bytes);
  CHECK(sockets.read(frame_header::size_bytes + 1) == frame(0, "x"));
}

TEST_CASE("frames of the caller arrive at their slot, and those of unknown slots are dropped", "[caller]") {
  const socket_pair sockets;
  input_side input(sockets, 8);
  const auto all = frame(4, "hello") + frame(5, "lost") + frame(4, "you");
  for (const char byte : all) // in the smallest pieces
    sockets.write(std::string(1, byte));
  auto received = input.received.get_future();
  REQUIRE(received.wait_for(patience) == std::future_status::ready);
  CHECK(received.get() == "helloyou");
}

TEST_CASE("input that a slot has not taken before its end does not hold up that of others", "[caller]") {
  const socket_pair sockets;
  input_side input(sockets, 5);
  std::promise<void> full;
  const slot_actor leaver = input.system.get().spawn(
      [&full, bytes = std::size_t{0}](slot_actor::pointer self) mutable -> slot_actor::behavior_type {
        return {
            [](start_atom) {},
            [](signal_atom, int) {},
            [&full, bytes](const slot_input& piece) mutable {
              bytes += piece.bytes.size();
              if (bytes == caller_input_state::most_untaken_bytes)
                full.set_value();
            },
            [](ended_atom) {},
            [](output_atom, int) {},
            [](writable_atom, int) {},
            [](room_atom, int) {},
            [self](overdue_atom) { self->quit(); },
        };
      });
  caf::anon_send(input.actor, slot_made{5, leaver});
  constexpr auto piece_bytes = caller_output::most_frame_bytes;
  for (std::size_t bytes = 0; bytes < caller_input_state::most_untaken_bytes; bytes += piece_bytes)
    sockets.write(frame(5, std::string(piece_bytes, 'x')));
  REQUIRE(full.get_future().wait_for(patience) == std::future_status::ready);
  sockets.write(frame(4, "hello"));
  caf::anon_send(leaver, overdue_atom::value);
  CHECK(input.received.get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("the end of the caller, or a malformed frame, is reported once", "[caller]") {
  for (const bool is_malformed : {false, true}) {
    socket_pair sockets;
    input_side input(sockets, 1);
    if (is_malformed)
      sockets.write(frame_header{4, 0}.encoded());
    else
      sockets.caller.close();
    CHECK(input.ended.get_future().wait_for(patience) == std::future_status::ready);
  }
}

TEST_CASE("the number of workers that the caller wants arrives at the driver", "[caller]") {
  const socket_pair sockets;
  std::promise<std::int32_t> wanted;
  input_side input(sockets, 1);
  const size_owner_actor driver =
      input.system.get().spawn([&wanted](size_owner_actor::pointer self) -> size_owner_actor::behavior_type {
        return {[&wanted, self](const workers_wanted& event) {
          wanted.set_value(event.count);
          self->quit();
        }};
      });
  caf::anon_send(input.actor, watch_size{driver, 300});
  sockets.write(frame(caller_output::event_slot, std::string("\x2c\x01\0\0", 4)));
  auto received = wanted.get_future();
  REQUIRE(received.wait_for(patience) == std::future_status::ready);
  CHECK(received.get() == 300);
  // A greater number is malformed, and so is any other content.
  sockets.write(frame(caller_output::event_slot, std::string("\x2d\x01\0\0", 4)));
  CHECK(input.ended.get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("a caller cannot change the number of workers of a job with a fixed number", "[caller]") {
  const socket_pair sockets;
  input_side input(sockets, 1);
  sockets.write(frame(caller_output::event_slot, std::string("\x02\0\0\0", 4)));
  CHECK(input.ended.get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("only four bytes are a number of workers", "[caller]") {
  CHECK(workers_wanted_in(std::string("\x01\0\0\x01", 4)) == 0x01000001U);
  CHECK_FALSE(workers_wanted_in("123"));
  CHECK_FALSE(workers_wanted_in("12345"));
}
