// Runs a handshake (channel_handshake.hpp) over a non-blocking socket.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport/tcp/channel_handshake.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// An authenticated connection to a member.
struct met_peer {
  std::int32_t rank = -1;
  descriptor socket;
  channel_keys keys;
  std::vector<std::byte> early; ///< received bytes after the handshake: the first chunks
};

struct channel_talk {
  descriptor socket;
  std::unique_ptr<channel_handshake> handshake;
  std::vector<std::byte> wire;  ///< bytes still to be sent
  std::vector<std::byte> early; ///< received bytes after the handshake: the first chunks
  bool spoke = false;           ///< the peer has sent something

  /// Receives and sends without blocking. After an error the connection is unusable.
  error advance();
  /// Whether both ends are authenticated and all handshake bytes have been sent.
  bool done() const { return handshake->done() && wire.empty(); }
  /// Returns the connection. Call it once done().
  met_peer finish();
  short events() const { return static_cast<short>(wire.empty() ? POLLIN : POLLIN | POLLOUT); }

private:
  error send_wire();
};

} // namespace farandole
