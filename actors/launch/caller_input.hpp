// Frames from the caller of a launcher (caller_output.hpp) to the channels of workers. A frame of the slot `event_slot` is
// for the launcher: a u32 in little-endian order, the number of workers that the job is to have from now on, or 0 if they
// are about to end.
#pragma once

#include <caf/all.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

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

/// The caller wants the job to have this number of workers.
struct workers_wanted {
  std::int32_t count = 0;
};

using size_owner_actor = caf::typed_actor<caf::reacts_to<workers_wanted>>;

/// The job can change its number of workers: from now on, tell its driver which number the caller wants.
struct watch_size {
  size_owner_actor driver;
  std::int32_t most = 0; ///< the greatest number; a frame with another one is malformed
};

using caller_input_actor = input_owner_actor::extend<caf::reacts_to<slot_made>, caf::reacts_to<watch_size>,
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
  bool forward_size(std::string_view body);
  void forward_input(std::uint32_t slot, std::string_view body);
  void taken(std::int32_t number, std::size_t bytes);
  void forget(const caf::down_msg& down);
  void stop();

  caller_input_actor::pointer self_;
  std::function<void()> ended_; ///< called once, when the caller has closed its end
  descriptor_watch watch_;
  std::string received_; ///< an incomplete frame
  struct recipient {
    slot_actor slot;
    std::size_t untaken_bytes = 0;
  };
  std::map<std::int32_t, recipient> slots_;
  watch_size size_;               ///< without a driver, the number of workers is fixed
  std::size_t untaken_bytes_ = 0; ///< of all slots
};

/// `ended` is called on the loop when the caller has closed its end, or has sent no frame.
caller_input_actor::behavior_type caller_input(caller_input_actor::stateful_pointer<caller_input_state> self,
                                               int socket, const std::function<void()>& ended);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_made)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_size)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::workers_wanted)
