#include "collectives/transport/tcp/channel_talk.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "collectives/transport/connections/sockets.hpp"

namespace farandole {

error channel_talk::advance() {
  std::array<std::byte, 2048> received;
  while (!handshake->done()) {
    const ssize_t got = ::recv(socket.get(), received.data(), received.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (got <= 0)
      return {error_kind::disconnected,
              got == 0 ? "it closed the connection before it authenticated" : text_of_errno(errno)};
    spoke = true;
    const auto part = std::span{received}.first(static_cast<std::size_t>(got));
    auto taken = handshake->feed(part, wire);
    if (!taken) {
      send_wire(); // best effort: an alert tells the peer the reason
      return taken.error();
    }
    const auto rest = part.subspan(*taken);
    early.assign(rest.begin(), rest.end());
  }
  return send_wire();
}

error channel_talk::send_wire() {
  while (!wire.empty()) {
    const ssize_t sent = ::send(socket.get(), wire.data(), wire.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK ? error{}
                                                     : error{error_kind::disconnected, text_of_errno(errno)};
    wire.erase(wire.begin(), wire.begin() + sent);
  }
  return {};
}

met_peer channel_talk::finish() {
  return {handshake->peer(), std::move(socket), handshake->keys(), std::move(early)};
}

} // namespace farandole
