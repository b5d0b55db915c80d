// The actor of remote_command.hpp: asks the launcher for a process on a host, and then is the far slot's way to the
// agent there.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/far_slot.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/standard_input.hpp"

namespace farandole {

using remote_command_actor = slot_owner_actor::extend<
    /// Dial the launcher.
    caf::reacts_to<start_atom>,
    /// This program received this signal: it is for the command.
    caf::reacts_to<interrupt_atom, int>,
    /// From the far slot.
    caf::reacts_to<agent_request>, caf::reacts_to<agent_request_over>,
    /// From the link.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>>;

struct remote_command_spec {
  std::string ip;
  std::uint16_t port = 0;
  link_settings links;
  std::string host;
  slot_spec slot; ///< its number comes from the launcher
  std::size_t window_bytes = std::size_t{1} << 20;
  std::shared_ptr<output_sink> sink;
  standard_input_actor input;
  /// Called on the loop, once, when the sink is not used any more. `problem` is empty if the command has run to its end.
  std::function<void(int code, const std::string& problem)> finished;
};

class remote_command_state {
public:
  static inline const char* name = "remote command";

  explicit remote_command_state(remote_command_actor::pointer self) : self_(self) {}

  remote_command_actor::behavior_type begin(const remote_command_spec& spec);

private:
  void opened(const link_opened& event);
  void received(const link_received& event);
  void accepted(process_number number);
  void interrupted(int signal);
  void ended(const slot_ended& event);
  void finish(int code, const std::string& problem);
  void end_if_complete();

  remote_command_actor::pointer self_;
  remote_command_spec spec_;
  caf::actor link_;
  far_slot_actor far_; ///< null until the launcher has accepted the command, and after its end
  int code_ = 0;
  std::string failure_;                               ///< why the command could not be started
  std::optional<std::pair<int, std::string>> result_; ///< exit code and problem; set once
};

remote_command_actor::behavior_type
remote_command(remote_command_actor::stateful_pointer<remote_command_state> self,
               const remote_command_spec& spec);

} // namespace farandole
