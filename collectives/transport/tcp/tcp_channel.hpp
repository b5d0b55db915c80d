// One open connection to one member: messages are cut into chunks, sealed and sent, and chunks that come are
// opened straight into the memory that waits for them. The socket never blocks; whoever owns the channel
// polls it. What nobody has asked for yet stays in the connection, so TCP's own flow control bounds it.
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
  /// `early`: chunks that came with the last of the handshake.
  tcp_channel(descriptor socket, const channel_keys& keys, std::span<const std::byte> early);

  int socket() const { return socket_.get(); }

  /// Memory and ticket stay as they are until the ticket has no message pending, or close().
  void send(message_phase phase, std::uint64_t sequence, std::span<const std::byte> bytes,
            message_ticket& ticket);
  void receive(message_phase phase, std::uint64_t sequence, std::span<std::byte> bytes,
               message_ticket& ticket);
  /// The last message of this member.
  void say_goodbye(const goodbye& parting);

  /// Sends or takes in what goes without waiting, but only so much that the other direction gets its turn.
  /// Whether anything moved. A message's ticket is done when its memory is needed no more.
  bool write();
  bool read();
  bool wants_to_write() const { return !deaf_peer_ && unsent(); }
  /// Whether bytes of messages are still here, even if they can never be sent.
  bool unsent() const { return !closed() && (sealed_.from != sealed_.to || !sends_.empty()); }
  /// Not while the next message is one that nobody has asked for.
  bool wants_to_read() const { return !closed() && !end_.reached && !early_; }
  /// Whether a chunk may have come of which poll() knows nothing any more: read() would take it in.
  bool holds_chunk() const { return wants_to_read() && came_.to - came_.from >= next_frame_; }
  /// Whether messages are under way, either way.
  bool pending() const { return !receives_.empty() || unsent(); }

  bool heard_goodbye() const { return heard_goodbye_; }
  /// What the peer said, of the length of a goodbye; nothing about it has been checked.
  const goodbye::encoded& heard() const { return heard_; }
  struct connection_end {
    bool reached = false; ///< the peer has ended the connection, or it broke; all before has been taken in
    std::string reason;   ///< why the connection is useless; empty: it is not
    bool cheated = false; ///< the peer itself broke a rule; otherwise the connection ended
  };
  const connection_end& end() const { return end_; }

  /// From here on messages are taken in and forgotten, whoever has asked for them, until the peer's goodbye.
  void seek_goodbye();
  /// Takes in what has come and forgets it: after that, nothing can be received any more.
  void discard();
  /// Whether the peer's host has everything that was sent, or never will.
  bool flushed() const;
  /// Nothing more is sent: the peer reads what was, then the end.
  void finish();
  /// Forgets all messages and their memory.
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
  /// Whether a chunk was taken from what has come.
  bool open_next();
  /// Of the next chunk: opens it where it has come, once, or into this memory. False: it is not what the peer
  /// sealed, and the connection has failed.
  bool open_in_place(std::span<const std::byte> clear, std::size_t bytes);
  bool open_into(std::byte* target, std::span<const std::byte> clear, std::size_t bytes);
  /// The next chunk, of so many bytes of plaintext, is done with.
  void consume(std::size_t bytes);
  /// The next chunk is open and belongs to no message that is waited for.
  bool take_or_forget(const chunk_header& header);
  bool fill();
  void fail(const std::string& reason, bool cheated);

  descriptor socket_;
  chunk_cipher sealer_;
  chunk_cipher opener_;
  std::deque<outgoing> sends_;
  std::deque<incoming> receives_;
  chunk_buffer sealed_; ///< what goes out next
  chunk_buffer came_;   ///< what has come
  bool opened_ = false; ///< the chunk at came_.from was opened where it lies
  std::size_t next_frame_ =
      chunk_header::size; ///< at least so many bytes must come before anything can be opened
  goodbye::encoded last_words_{};
  message_ticket unheeded_; ///< of last_words_
  goodbye::encoded heard_{};
  bool heard_goodbye_ = false;
  bool seeks_goodbye_ = false;
  bool early_ = false;     ///< the next message is one that nobody has asked for
  bool deaf_peer_ = false; ///< nothing more can be sent
  connection_end end_;
};

} // namespace farandole
