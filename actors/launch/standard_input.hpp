// Forwards the standard input of this process to one slot, whose process may run on another host. Nothing is read before
// the process runs or after it has ended, and at most a window of bytes is between the input and the process.
#pragma once

#include <caf/all.hpp>

#include <cstddef>
#include <string>

#include "actors/event_loop/atoms.hpp"
#include "actors/launch/caller_input.hpp"
#include "actors/launch/input_reader.hpp"
#include "actors/launch/slot.hpp"

namespace farandole {

/// Bytes of the input; none at its end.
struct input_read {
  std::string bytes;
};

using standard_input_actor = input_owner_actor::extend<
    /// The slot of the process that receives the input was made.
    caf::reacts_to<slot_made>,
    /// Its process runs: begin to read.
    caf::reacts_to<start_atom>,
    /// Read no further, and end.
    caf::reacts_to<close_atom>,
    /// From the reader's thread.
    caf::reacts_to<input_read>>;

class standard_input_state {
public:
  static inline const char* name = "standard input";
  /// Back-pressure: no more bytes than these are read before the process has taken earlier ones.
  static constexpr std::size_t window_bytes = std::size_t{1} << 20;

  explicit standard_input_state(standard_input_actor::pointer self) : self_(self) {}

  standard_input_actor::behavior_type begin(input_reader* reader);

private:
  void forward(const input_read& input);

  standard_input_actor::pointer self_;
  input_reader* reader_ = nullptr;
  slot_actor slot_; ///< null before it was made and after its end
};

/// The caller starts `reader`, which must outlive the actor and deliver its bytes to it.
standard_input_actor::behavior_type
standard_input(standard_input_actor::stateful_pointer<standard_input_state> self, input_reader* reader);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::input_read)
