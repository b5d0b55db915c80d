// The actor of one slot. It starts the worker process of the slot, forwards its output to a sink, and tells its owner
// when the process has ended. Afterwards it kills the remaining processes of the process group. The owner is a host
// driver on the launcher's host and an agent on other hosts.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/event_loop/loop.hpp"
#include "actors/launch/output_sink.hpp"
#include "actors/launch/slot_spec.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

/// The slot's process has ended or could not be started. In the second case `failure` tells why, and the exit status
/// holds a shell's exit code.
struct slot_ended {
  std::int32_t slot = 0;
  process_end exit_status;
  std::string failure;
};

/// All output of the slot was forwarded, and its process group was killed. The slot actor ends.
struct slot_finished {
  std::int32_t slot = 0;
  std::deque<std::string> last_lines; ///< the last lines of the process' standard error
};

/// This many bytes of input were written to the slot's process, or dropped because it does not read them any more.
struct slot_input_taken {
  std::int32_t slot = 0;
  int stream = channel_stream;
  std::size_t bytes = 0;
};

using input_owner_actor = caf::typed_actor<caf::reacts_to<slot_input_taken>>;

/// Bytes for the channel or the standard input of the slot's process, which runs. The sender bounds the number of bytes
/// that are not taken.
struct slot_input {
  std::string bytes;
  input_owner_actor owner; ///< may be null
  int stream = channel_stream;
  bool ended = false; ///< the standard input ends after these bytes
};

using slot_owner_actor = caf::typed_actor<caf::reacts_to<slot_ended>, caf::reacts_to<slot_finished>>;

using start_atom = caf::atom_constant<caf::atom("start")>;
using signal_atom = caf::atom_constant<caf::atom("signal")>;
using ended_atom = caf::atom_constant<caf::atom("ended")>;
using output_atom = caf::atom_constant<caf::atom("output")>;
using writable_atom = caf::atom_constant<caf::atom("writable")>;
using room_atom = caf::atom_constant<caf::atom("room")>;
using overdue_atom = caf::atom_constant<caf::atom("overdue")>;

using slot_actor = caf::typed_actor<
    /// Start the process.
    caf::reacts_to<start_atom>,
    /// Send this signal to the process group, if the process has not ended.
    caf::reacts_to<signal_atom, int>,
    /// Write this to the process.
    caf::reacts_to<slot_input>,
    /// INTERNAL: the process has ended.
    caf::reacts_to<ended_atom>,
    /// INTERNAL: stream 0 (output), 1 (errors) or 2 (the channel) can be read.
    caf::reacts_to<output_atom, int>,
    /// INTERNAL: the standard input or the channel can be written.
    caf::reacts_to<writable_atom, int>,
    /// INTERNAL: the sink has room for this stream again.
    caf::reacts_to<room_atom, int>,
    /// INTERNAL: the linger time for output that is still open after the end of the process is over.
    caf::reacts_to<overdue_atom>>;

class slot_state {
public:
  static inline const char* name = "slot";

  explicit slot_state(slot_actor::pointer self) : self_(self) {}
  ~slot_state();

  slot_actor::behavior_type begin(slot_spec spec, std::shared_ptr<output_sink> sink, slot_owner_actor owner);

private:
  struct stream {
    descriptor_watch watch;
    bool paused = false; ///< the sink has no room
    /// Set after the linger time: number of bytes that are still forwarded.
    std::optional<std::size_t> rest_bytes = {};
  };

  /// Bytes for the process on one stream.
  struct input {
    std::deque<slot_input> queue;  ///< not yet written
    std::size_t written_bytes = 0; ///< of the first element
  };

  void start();
  void open(int number, descriptor pipe);
  void open_input(descriptor pipe);
  void send_signal(int number);
  void ended();
  void read(int number);
  input& input_of(int stream) { return inputs_[stream == channel_stream]; }
  bool has_input(int stream) { return !input_of(stream).queue.empty(); }
  void write_input(int stream);
  void drop_input(int stream);
  void close(int number);
  void pause(int number);
  void resume(int number);
  void overdue();
  void finish_if_silent();

  slot_actor::pointer self_;
  slot_spec spec_;
  std::shared_ptr<output_sink> sink_;
  slot_owner_actor owner_;
  farandole::process process_;
  descriptor_watch watched_;
  stream streams_[output_streams];
  descriptor_watch standard_input_;
  input inputs_[2];
  bool has_ended_ = false;
};

slot_actor::behavior_type slot(slot_actor::stateful_pointer<slot_state> self, const slot_spec& spec,
                               const std::shared_ptr<output_sink>& sink, const slot_owner_actor& owner);

/// Makes the slot of a process on this host. The simulated world has slots of its own.
using slot_maker = std::function<slot_actor(const slot_spec& spec, const std::shared_ptr<output_sink>& sink,
                                            const slot_owner_actor& owner)>;

/// Slots of real processes.
slot_maker real_slots(caf::actor_system& system);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_input_taken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_input)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_finished)
