// A link carries envelopes between two processes over TCP, with TLS keyed by the job's secret and framing
// (framing.hpp). It is an actor on the loop. Its owner sends it envelopes and receives link_opened, link_received and
// link_closed (actors/event_loop/link_messages.hpp). Envelopes that are sent within one turn of the loop leave in one
// write. Each link logs once why it ended: at level INFO if the peer is gone and the owner is notified, as a warning
// if something is wrong. It does not log an end that was requested.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_loop/link_id.hpp"
#include "actors/event_loop/log.hpp"
#include "collectives/transport/connections/handshake_table.hpp"
#include "collectives/transport/connections/tls.hpp"
#include "messages/values/error.hpp"
#include "messages/values/port_range.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

struct listening {
  std::uint16_t port = 0;
  /// Accepts peers_expected, and close_atom, which stops listening. Open links that it accepted stay open.
  caf::actor handle;
};

/// Makes links in the simulation, which has no sockets. Gives the same guarantees as listen() and dial() below.
class link_maker {
public:
  virtual ~link_maker() = default;
  virtual expected<listening> listen(const std::string& bind_ip, std::uint16_t port, caf::actor owner) = 0;
  virtual void dial(const std::string& ip, std::uint16_t port, caf::actor owner, link_id id) = 0;
};

class settings;

struct link_settings {
  std::shared_ptr<link_maker> simulated;              ///< null: links use sockets
  std::shared_ptr<const tls_credentials> credentials; ///< must not be null if links use sockets
  message_limits limits;
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{10}; ///< dial to end of the handshake
  std::chrono::nanoseconds close_timeout = std::chrono::seconds{5}; ///< for sending queued messages on close
  std::string connect_timeout_setting = "connect timeout";          ///< named in the error when it expires
  std::chrono::nanoseconds silence = std::chrono::seconds{30};      ///< tolerated silence of the peer's host
  std::string silence_setting = "link timeout"; ///< named in the error when it is exceeded
  std::size_t queue_bytes = std::size_t{256}
                            << 20; ///< with more unsent bytes the link closes, because the peer is too slow
  port_range ports;                ///< of listeners for which no port is given
  handshake_limits handshakes;     ///< used by listeners; the time limits apply to accepted connections
  logger* log = nullptr;           ///< must outlive the link; null: nothing is logged

  /// Default settings with the link timeout and the port range of `values`.
  static link_settings of(const settings& values);
};

/// Accepts links for `owner`, in the order and within the limits that connections/handshake_table.hpp decides. The
/// ids of accepted links have the highest bit set. Stops listening when the owner ends.
expected<listening> listen(caf::actor_system& system, const std::string& bind_ip, std::uint16_t port,
                           caf::actor owner, const link_settings& settings);

/// The same on several addresses of this host, all with one port, which is that of the first element.
expected<std::vector<listening>> listen(caf::actor_system& system, const std::vector<std::string>& bind_ips,
                                        std::uint16_t port, const caf::actor& owner,
                                        const link_settings& settings);

/// Connects to a listener; never blocks. If the peer closes the connection before the link is open, as an overloaded
/// listener does, the link dials again until connect_timeout has passed. The owner first receives either
/// link_opened{id} or link_closed{id, reason}. After link_opened it receives link_closed exactly once. The owner
/// chooses `id`, which must be below 2^63 and must never be reused. A link ends when its owner ends.
void dial(caf::actor_system& system, const std::string& ip, std::uint16_t port, caf::actor owner, link_id id,
          const link_settings& settings);

} // namespace farandole
