// A link carries envelopes between two processes: TCP, TLS with the job's secret, frames. It is an actor on
// the loop; its owner sends it envelopes and hears link_opened, link_received and link_closed
// (actors/event_loop/link_messages.hpp). What was sent within one turn of the loop leaves in one write. Each link
// states once, in the log, why it ended: for information where its owner is told that the peer is gone, as a
// warning where something is wrong.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/event_loop/link_id.hpp"
#include "actors/event_loop/log.hpp"
#include "collectives/transport/connections/handshake_table.hpp"
#include "collectives/transport/connections/tls.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

struct listening {
  std::uint16_t port = 0;
  /// Send it peers_expected, or close_atom to stop listening; links that it accepted live on.
  caf::actor handle;
};

/// What makes links where there are no sockets, in the simulated world. Promises what listen() and dial()
/// below do.
class link_maker {
public:
  virtual ~link_maker() = default;
  virtual expected<listening> listen(const std::string& bind_ip, std::uint16_t port, caf::actor owner) = 0;
  virtual void dial(const std::string& ip, std::uint16_t port, caf::actor owner, link_id id) = 0;
};

class settings;

struct link_settings {
  std::shared_ptr<link_maker> simulated;              ///< none: sockets
  std::shared_ptr<const tls_credentials> credentials; ///< never empty, where there are sockets
  message_limits limits;
  std::chrono::nanoseconds connect_timeout =
      std::chrono::seconds{10};                                     ///< dialling, to the end of the handshake
  std::chrono::nanoseconds close_timeout = std::chrono::seconds{5}; ///< to send what is queued
  std::string connect_timeout_setting = "connect timeout";          ///< named in the error when it passes
  std::chrono::nanoseconds silence = std::chrono::seconds{30}; ///< of the peer's host; then the link ends
  std::string silence_setting = "link timeout";                ///< named in the error then
  std::size_t queue_bytes = std::size_t{256}
                            << 20; ///< unsent beyond this: the peer is too slow, the link closes
  handshake_limits handshakes;     ///< of a listener; those of time are for the links that it accepts
  logger* log = nullptr;           ///< outlives the link

  /// With as much silence as these settings allow.
  static link_settings of(const settings& values);
};

/// Accepts links for `owner`, as connections/handshake_table.hpp decides. Numbers of accepted links have the
/// highest bit set. Stops when the owner ends.
expected<listening> listen(caf::actor_system& system, const std::string& bind_ip, std::uint16_t port,
                           caf::actor owner, const link_settings& settings);

/// Connects; never blocks. A peer that hangs up before the link is open, as a listener does to which too many
/// connect, is dialled again until connect_timeout has passed. The owner hears link_opened{id} or
/// link_closed{id, reason} first; after link_opened, link_closed comes once. `id` is the owner's choice,
/// below 2^63, and never reused. A link ends when its owner does.
void dial(caf::actor_system& system, const std::string& ip, std::uint16_t port, caf::actor owner, link_id id,
          const link_settings& settings);

} // namespace farandole
