// The sending side of a link: messages wait here until they are framed, sealed (encrypted) and accepted by the kernel.
// The number of bytes that are sealed ahead of the socket is bounded, and small messages are sealed together. Used on
// the event loop's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/transport/connections/tls.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

class link_send_queue {
public:
  enum class progress : std::uint8_t {
    done,    ///< the kernel has accepted all sealed bytes
    blocked, ///< it accepts the rest when the socket is writable
    failed,  ///< the peer receives nothing any more
  };

  void push(const envelope& message);
  /// Whether messages wait to be sealed.
  bool has_unsealed() const { return !queue_.empty(); }
  /// Bytes of all messages that the kernel has not accepted.
  std::size_t waiting_bytes() const { return queued_bytes_ + unsent(); }
  bool has_sealed() const { return unsent() > 0; }

  /// Seals the oldest messages, up to a limit of sealed bytes.
  error seal_some(tls_session& tls);
  /// Sends sealed bytes as long as the kernel accepts them.
  progress send(int socket);

  /// The TLS session appends the bytes of its handshake and its alerts here.
  std::vector<std::byte>& sealed() { return sealed_; }
  /// Forgets the sealed bytes: they belong to a connection that is closed.
  void forget_sealed();

private:
  std::size_t unsent() const { return sealed_.size() - sent_; }

  std::deque<envelope> queue_; ///< not sealed yet
  std::size_t queued_bytes_ = 0;
  std::vector<std::byte> sealed_; ///< the kernel has accepted the first sent_ of them
  std::size_t sent_ = 0;
};

} // namespace farandole
