// The slot of a worker on another host. It has the interface of a slot (slot.hpp) and lets the agent of that host do
// the work: requests go to the agent by way of the agent registry, which forwards the agent's reports to this actor.
#pragma once

#include <caf/all.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "actors/launch/output_sink.hpp"
#include "actors/launch/slot.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

/// The host of this slot is lost, or its agent could not be started.
struct host_lost {
  std::string cause; ///< "host b was lost: the connection ended"
  int code = 1;
};

using far_slot_actor = slot_actor::extend<
    /// From the agent, by way of the registry.
    caf::reacts_to<envelope>,
    /// From the registry.
    caf::reacts_to<host_lost>,
    /// INTERNAL: the sink has room for this stream again.
    caf::reacts_to<drained_atom, int>>;

/// A message for the agent of a host. The messages of a slot begin with the request to start its process.
struct agent_request {
  std::string host;
  process_number number = 0;
  envelope message;
  far_slot_actor slot; ///< receives the agent's reports about the process
};

/// All that is to be known of this process was reported. Its number is not used any more.
struct agent_request_over {
  std::string host;
  process_number number = 0;
};

using agent_request_actor =
    caf::typed_actor<caf::reacts_to<agent_request>, caf::reacts_to<agent_request_over>>;

struct far_slot_spec {
  slot_spec slot;
  bool joins_job = true;        ///< the process inherits the job's secret
  std::size_t window_bytes = 0; ///< of each stream: what the agent may send before an acknowledgement
  std::shared_ptr<output_sink> sink;
  agent_request_actor agents;
};

class far_slot_state {
public:
  static inline const char* name = "far slot";

  explicit far_slot_state(far_slot_actor::pointer self) : self_(self) {}

  far_slot_actor::behavior_type begin(const far_slot_spec& spec, const slot_owner_actor& owner);

private:
  /// Bytes that were given for one stream of input.
  struct given {
    input_owner_actor owner; ///< of the last input
    std::size_t bytes = 0;   ///< not yet taken
  };

  void start();
  void send_signal(int number);
  void received(const envelope& message);
  void give(const slot_input& input);
  void took(int stream, std::size_t bytes);
  void drop_input();
  void wrote(const process_output& output);
  void acknowledge(int stream);
  void ended(const process_ended& report);
  void lost(const host_lost& event);
  void finish();
  void request(const envelope& message);
  process_number number() const { return static_cast<process_number>(spec_.slot.slot); }

  far_slot_actor::pointer self_;
  far_slot_spec spec_;
  slot_owner_actor owner_;
  std::map<int, given> inputs_;                     ///< by stream
  std::size_t consumed_bytes_[output_streams] = {}; ///< written to the sink and not acknowledged
  bool waiting_[output_streams] = {};               ///< for room in the sink
  bool started_ = false;                            ///< the process runs or ran
  bool has_ended_ = false;
};

far_slot_actor::behavior_type far_slot(far_slot_actor::stateful_pointer<far_slot_state> self,
                                       const far_slot_spec& spec, const slot_owner_actor& owner);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::agent_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::agent_request_over)
