// The interface to a library that carries messages, for the paths between processes: send bytes to one other
// member, receive bytes from one, and wait with a time limit. The collectives are implemented once on top of
// it (message_exchange.hpp), so results have the same bits with every library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collectives/transport/path.hpp"

namespace farandole {

/// The purpose of a message. Part of the wire format between equal builds.
enum class message_phase : std::uint8_t {
  hello = 0,    ///< first message in each direction, which proves the connection
  goodbye = 1,  ///< last message in each direction: the reason why the sender leaves
  exchange = 2, ///< a small tensor's whole contribution
  scatter = 3,  ///< a contribution to the receiver's segment
  gather = 4,   ///< a finished segment, or rows of an allgather or alltoall
  tree = 5,     ///< a piece of a broadcast, from parent to child
  barrier = 6,
};

/// Counts messages in progress. Must outlive them: see wait().
struct message_ticket {
  std::size_t pending = 0;
};

/// Serves one lane and one generation, and is used from the lane's thread. Messages of one phase between the
/// same two members arrive in the order of sending. A messenger may hold messages back behind one that the
/// receiver has not requested yet. Therefore a member must request the messages of a peer in the order in
/// which the peer sends them, before it waits for anything that depends on them.
class messenger {
public:
  virtual ~messenger() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t members() const = 0;

  /// Starts a message. The caller must keep `bytes` and `ticket` valid and unchanged until a wait() for the
  /// ticket has returned, or any wait() has failed.
  virtual void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                    message_ticket& ticket) = 0;
  virtual void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                       message_ticket& ticket) = 0;
  /// Processes received messages without blocking.
  virtual void look() = 0;
  /// Blocks until all messages of the ticket are done. The error of a failed message is returned by the wait
  /// for its own ticket, never by the wait for a later one. After an error no message is sent or received any
  /// more, and the caller's memory is not accessed.
  virtual error wait(const message_ticket& ticket, const deadline_and_abort& deadline) = 0;
};

/// Callbacks around each piece of an allreduce or allgather that the caller has cut itself. Three pieces are
/// in progress: before(k) is called before the first message of piece k, after(k) when its result is
/// complete, and before(k + 2) before after(k). An error ends the run and makes the path unusable.
struct piece_callbacks {
  std::size_t pieces = 0;
  std::size_t piece_bytes = 0; ///< whole elements; the stream ends in the last piece or before it
  std::function<error(std::size_t piece)> before;
  std::function<error(std::size_t piece)> after;
};

} // namespace farandole
