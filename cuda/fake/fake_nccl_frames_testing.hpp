// What ranks and the hub of a communicator send each other, over unix sockets in the abstract namespace: nothing is left
// in the file system. Both ends check that the peer has the same user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fake_nccl {

enum class frame_kind : std::uint32_t {
  hello,   ///< a rank's first frame: `introduction`
  welcome, ///< all ranks have come and agree
  refusal, ///< they do not agree: `op` is the ncclResult_t, the data are the text
  lost,    ///< rank `peer` has closed its socket without `leave`
  leave,   ///< the rank's communicator has ended; its socket closes
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  send,
  receive,
  done, ///< the operation `id` of the rank has ended; the data are its result
};

struct frame_header {
  frame_kind kind = frame_kind::hello;
  std::int32_t type = 0; ///< ncclDataType_t
  std::int32_t op = 0;   ///< ncclRedOp_t
  std::int32_t peer = 0; ///< root of a broadcast, peer of a send or receive
  std::uint64_t id = 0;  ///< of an operation, unique in its rank
  std::uint64_t count = 0;
  std::uint64_t bytes = 0; ///< of the data that follow
};

using frame_data = std::shared_ptr<const std::vector<unsigned char>>;

struct frame {
  frame_header header;
  frame_data data; ///< may be null if there are no bytes

  frame() = default;
  explicit frame(frame_header head, std::vector<unsigned char> bytes = {});
  frame(frame_header head, frame_data bytes);
};

/// The data of `hello`.
struct introduction {
  std::int32_t ranks = 0, rank = 0, version = 0, device = 0;
  char host[64] = {}; ///< ends with a null byte
};

/// A connected socket that does not block. Owns the descriptor. Used by one thread.
class frame_socket {
public:
  explicit frame_socket(int descriptor);
  frame_socket(const frame_socket&) = delete;
  frame_socket& operator=(const frame_socket&) = delete;
  ~frame_socket();

  int descriptor() const { return descriptor_; }
  void push(frame next) { unsent_.push_back(std::move(next)); }
  bool has_unsent() const { return !unsent_.empty(); }
  /// Sends as much as the socket takes. False if the peer has closed it.
  bool send();
  /// Calls `visit` for each frame that has arrived. False if the peer has closed the socket.
  bool receive(const std::function<void(frame)>& visit);

private:
  void parse(const std::function<void(frame)>& visit);

  int descriptor_;
  std::deque<frame> unsent_;
  std::size_t sent_ = 0; ///< bytes of the first frame in `unsent_`
  std::vector<unsigned char> received_;
};

/// A number for poll(2) that becomes readable when another thread calls wake().
class wake_descriptor {
public:
  wake_descriptor();
  wake_descriptor(const wake_descriptor&) = delete;
  wake_descriptor& operator=(const wake_descriptor&) = delete;
  ~wake_descriptor();

  int descriptor() const { return descriptor_; }
  void wake() const;
  void clear() const;

private:
  int descriptor_;
};

/// A random name, 32 hexadecimal digits.
std::string random_name();
/// Descriptors that do not survive exec. -1 with errno set if it fails.
int listen_at(const std::string& name);
int connect_to(const std::string& name);
/// -1 if no peer of this user waits.
int accept_own_user(int listening);

} // namespace fake_nccl
