// What a path between processes needs of a library that carries messages: to give bytes to one other member
// and take bytes from one, and to wait with an end. The collectives themselves are built on this, once for
// all libraries (message_exchange.hpp), so every one of them gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collectives/transport/path.hpp"

namespace farandole {

/// What a message is for. Part of the wire format between equal builds.
enum class message_phase : std::uint8_t {
  hello = 0,    ///< first message each way: the connection works
  goodbye = 1,  ///< last message each way: why the sender leaves
  exchange = 2, ///< a small tensor's whole contribution
  scatter = 3,  ///< a contribution to the receiver's segment
  gather = 4,   ///< a finished segment, or rows of an allgather or alltoall
  tree = 5,     ///< a broadcast, going down
  barrier = 6,
};

/// Counts messages that are on their way. Outlives them: see wait().
struct message_ticket {
  std::size_t pending = 0;
};

/// For one lane and one generation; used from the lane's thread. Messages of one phase between the same two
/// members arrive in the order of sending. A messenger may keep messages waiting behind one that nobody has
/// asked for yet, so a member asks for those of a peer in the order in which the peer sends them, before it
/// waits for anything that depends on them.
class messenger {
public:
  virtual ~messenger() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t members() const = 0;

  /// Both memory and ticket stay as they are until a wait() for the ticket has returned, or any wait()
  /// failed.
  virtual void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                    message_ticket& ticket) = 0;
  virtual void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                       message_ticket& ticket) = 0;
  /// Takes in what has come, without waiting.
  virtual void look() = 0;
  /// Blocks until all messages of the ticket are done. The error of one that failed comes here, never in the
  /// wait for a later ticket. After an error nothing is sent or received any more, and no memory of the
  /// caller's is touched.
  virtual error wait(const message_ticket& ticket, const deadline_and_abort& deadline) = 0;
};

/// What a caller does around each piece of an allreduce or allgather that it has cut itself. Pieces are under
/// way three deep: before(k) comes ahead of the first message of piece k, after(k) when its result stands,
/// and before(k + 2) comes ahead of after(k). An error ends the run and the path.
struct piece_interludes {
  std::size_t pieces = 0;
  std::size_t piece_bytes = 0; ///< whole elements; the stream ends in the last piece or before it
  std::function<error(std::size_t piece)> before;
  std::function<error(std::size_t piece)> after;
};

} // namespace farandole
