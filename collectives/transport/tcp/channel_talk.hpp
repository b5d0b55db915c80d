// A handshake (channel_handshake.hpp) over a socket that never blocks.
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

/// A member that has been met.
struct met_peer {
  std::int32_t rank = -1;
  descriptor socket;
  channel_keys keys;
  std::vector<std::byte> early; ///< chunks that have come already
};

struct channel_talk {
  descriptor socket;
  std::unique_ptr<channel_handshake> handshake;
  std::vector<std::byte> wire;  ///< still to be sent
  std::vector<std::byte> early; ///< what came behind the handshake
  bool spoke = false;           ///< the peer has sent something

  /// Takes in and sends what goes without waiting. After an error the connection is useless.
  error advance();
  /// Both ends have proved who they are, and the peer has been sent all that it needs.
  bool done() const { return handshake->done() && wire.empty(); }
  /// Once done.
  met_peer finish();
  short events() const { return static_cast<short>(wire.empty() ? POLLIN : POLLIN | POLLOUT); }

private:
  error send_wire();
};

} // namespace farandole
