// Frames from a launcher to its caller: the program, such as a Python interpreter, that has started the launcher with a
// connected socket (--call-descriptor). A frame is a slot and a length, both u32 in little-endian order, and the bytes:
// what that slot's worker has written to its channel. Frames of the slot `event_slot` hold an event as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "actors/launch/output_writer.hpp"

namespace farandole {

class caller_output {
public:
  static constexpr std::uint32_t event_slot = 0xffffffff;
  static constexpr std::size_t most_frame_bytes = std::size_t{1} << 20;

  /// `socket` must outlive the object. Frames are written on a thread of their own.
  explicit caller_output(int socket) : socket_(socket) {}

  /// Queues bytes, cut into frames. Called on the loop only, as are the others.
  void send(std::int32_t slot, std::string_view bytes);
  /// The process of a slot runs.
  void started(std::int32_t slot, const std::string& host, std::int32_t process);
  /// The job waits for agents that the caller or its user starts; `launcher` is for their option --launcher, and `text` for
  /// the user.
  void waits_for_agents(const std::string& launcher, const std::string& text);
  /// An agent is connected under this name.
  void agent_connected(const std::string& host);
  /// The job fails because hosts, or enough slots, were not there in time.
  void timed_out();
  /// The worker of this slot leaves by plan. The caller lets its process end.
  void retired(std::int32_t slot);
  /// The process of a slot has ended. `manner` is text such as "exited with code 3". The event is sent once the slot's
  /// output is complete, too, so that all frames of the slot precede it.
  void ended(std::int32_t slot, const std::string& manner);
  /// No further bytes of this slot will be sent.
  void complete(std::int32_t slot);
  bool full() const { return writer_.full(); }
  void when_there_is_room(std::function<void()> action) { writer_.when_there_is_room(std::move(action)); }

private:
  void put(std::uint32_t slot, std::string_view bytes);
  void put_ended(std::int32_t slot, const std::string& manner);

  int socket_;
  std::map<std::int32_t, std::string>
      ended_;                       ///< how the processes of slots ended whose output is not complete
  std::set<std::int32_t> complete_; ///< slots whose output is complete, and whose process has not ended
  output_writer writer_;
};

/// The length and the slot of a frame from its first eight bytes.
struct frame_header {
  static constexpr std::size_t size_bytes = 8;

  std::uint32_t slot = 0;
  std::uint32_t length = 0;

  std::string encoded() const;
  static frame_header decoded(std::string_view bytes);
};

/// The number of workers in a frame of the slot `event_slot`; empty if the frame holds something else.
std::optional<std::uint32_t> workers_wanted_in(std::string_view body);

} // namespace farandole
