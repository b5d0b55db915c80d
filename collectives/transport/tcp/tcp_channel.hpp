// One open connection to one member. Messages are cut into chunks, sealed and sent; received chunks are
// decrypted directly into the memory of the matching receive(). The socket never blocks; the owner of the
// channel polls it. A message without a matching receive() stays in the socket, so TCP flow control
// provides the back-pressure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/p2p/goodbye.hpp"
#include "collectives/transport/p2p/messenger.hpp"
#include "collectives/transport/tcp/channel_handshake.hpp"
#include "collectives/transport/tcp/chunk_cipher.hpp"
#include "collectives/transport/tcp/chunk_header.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

class tcp_channel {
public:
  /// `early`: bytes of chunks that arrived together with the end of the handshake.
  tcp_channel(descriptor socket, const channel_keys& keys, std::span<const std::byte> early);

  int socket() const { return socket_.get(); }

  /// The caller owns `bytes` and `ticket`. It must keep them valid, and must not access `bytes`, until the
  /// ticket has no pending message or close() is called.
  void send(message_phase phase, std::uint64_t sequence, std::span<const std::byte> bytes,
            message_ticket& ticket);
  void receive(message_phase phase, std::uint64_t sequence, std::span<std::byte> bytes,
               message_ticket& ticket);
  /// Sends the last message of this member. Messages that were not sent yet are dropped.
  void say_goodbye(const goodbye& parting);

  /// Send and receive without blocking, but only a few chunks in one call, so that the other direction gets
  /// its turn. They return whether any data moved. A message is no longer pending in its ticket once its
  /// memory is not needed any more.
  bool write();
  bool read();
  bool wants_to_write() const { return !deaf_peer_ && unsent(); }
  /// Whether bytes of messages have not been passed to the socket yet, even if they can never be sent.
  bool unsent() const { return !closed() && (sealed_.from != sealed_.to || !sends_.empty()); }
  /// False while the next message has no matching receive().
  bool wants_to_read() const { return !closed() && !end_.reached && !early_; }
  /// Whether the buffer may hold a complete chunk, which poll() on the socket would not report. read()
  /// processes it.
  bool holds_chunk() const { return wants_to_read() && came_.to - came_.from >= next_frame_; }
  /// Whether a message is in progress in either direction.
  bool pending() const { return !receives_.empty() || unsent(); }

  bool heard_goodbye() const { return heard_goodbye_; }
  /// The goodbye of the peer. It has the length of a goodbye; its contents are not validated.
  const goodbye::encoded& heard() const { return heard_; }
  struct connection_end {
    bool reached = false; ///< the connection ended or broke; everything before that has been read
    std::string reason;   ///< why the connection is unusable; empty: it is usable
    bool cheated = false; ///< the peer violated the protocol; otherwise the connection ended
  };
  const connection_end& end() const { return end_; }

  /// From now on received messages are discarded, even those with a matching receive(), until the peer's
  /// goodbye.
  void seek_goodbye();
  /// Reads all available bytes and discards them. Nothing can be received afterwards.
  void discard();
  /// Whether the peer's host has acknowledged everything that was sent, or never will.
  bool flushed() const;
  /// Closes the sending direction: the peer reads everything that was sent, then the end of the stream.
  void finish();
  /// Closes the socket and drops all messages. Their memory is not accessed afterwards.
  void close();
  bool closed() const { return !socket_; }

private:
  struct outgoing {
    message_phase phase;
    std::uint64_t sequence;
    const std::byte* from;
    std::size_t left;
    message_ticket* ticket;
  };
  struct chunk_buffer { ///< holds [from, to)
    std::unique_ptr<std::byte[]> bytes;
    std::size_t from = 0;
    std::size_t to = 0;
  };
  struct incoming {
    message_phase phase;
    std::uint64_t sequence;
    std::byte* to;
    std::size_t left;
    message_ticket* ticket;
  };

  bool seal_next();
  /// Processes the next buffered chunk. Returns whether a chunk was consumed.
  bool open_next();
  /// Decrypt the next chunk in the receive buffer (only once), or into `target`. They return false if the
  /// chunk is not what the peer sealed; the connection has then failed.
  bool open_in_place(std::span<const std::byte> clear, std::size_t bytes);
  bool open_into(std::byte* target, std::span<const std::byte> clear, std::size_t bytes);
  /// Removes the next chunk, which has `bytes` bytes of plaintext, from the receive buffer.
  void consume(std::size_t bytes);
  /// Consumes the next chunk, which is decrypted in place: stores it if it is a goodbye, otherwise discards
  /// it.
  bool take_or_forget(const chunk_header& header);
  bool fill();
  void fail(const std::string& reason, bool cheated);

  descriptor socket_;
  chunk_cipher sealer_;
  chunk_cipher opener_;
  std::deque<outgoing> sends_;
  std::deque<incoming> receives_;
  chunk_buffer sealed_; ///< sealed bytes to send next
  chunk_buffer came_;   ///< received bytes
  bool opened_ = false; ///< the chunk at came_.from is decrypted in place
  std::size_t next_frame_ =
      chunk_header::size; ///< minimum number of buffered bytes before the next step of decryption
  goodbye::encoded last_words_{};
  message_ticket unheeded_; ///< ticket of last_words_, which is never waited for
  goodbye::encoded heard_{};
  bool heard_goodbye_ = false;
  bool seeks_goodbye_ = false;
  bool early_ = false;     ///< the next message has no matching receive() yet
  bool deaf_peer_ = false; ///< nothing more can be sent to the peer
  connection_end end_;
};

} // namespace farandole
