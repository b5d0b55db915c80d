// Frames from the caller of a launcher (caller_output.hpp) to the channels of workers.
#pragma once

#include <caf/all.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/loop.hpp"
#include "actors/launch/slot.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

/// The slot actor of this number was made; frames of the slot go to it.
struct slot_made {
  std::int32_t number = 0;
  slot_actor slot;
};

using caller_input_actor = input_owner_actor::extend<caf::reacts_to<slot_made>,
                                                     /// The job has ended: read no further.
                                                     caf::reacts_to<close_atom>,
                                                     /// INTERNAL: the socket can be read.
                                                     caf::reacts_to<output_atom>>;

class caller_input_state {
public:
  static inline const char* name = "caller input";
  /// Back-pressure: no frame is read while the workers have not taken this many bytes.
  static constexpr std::size_t most_untaken_bytes = std::size_t{4} << 20;

  explicit caller_input_state(caller_input_actor::pointer self) : self_(self) {}

  caller_input_actor::behavior_type begin(descriptor socket, std::function<void()> ended);

private:
  void read();
  /// Forwards the complete frames. Returns false if one is malformed.
  bool forward_frames();
  void taken(std::size_t bytes);
  void stop();

  caller_input_actor::pointer self_;
  std::function<void()> ended_; ///< called once, when the caller has closed its end
  descriptor_watch watch_;
  std::string received_; ///< an incomplete frame
  std::map<std::int32_t, slot_actor> slots_;
  std::size_t untaken_bytes_ = 0;
};

/// `ended` is called on the loop when the caller has closed its end, or has sent no frame.
caller_input_actor::behavior_type caller_input(caller_input_actor::stateful_pointer<caller_input_state> self,
                                               int socket, const std::function<void()>& ended);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_made)
