// The interface to Gloo: connections between each two members of a set, and messages over them. A separate
// module implements it (gloo_module.cpp), because the process may already contain another Gloo (PyTorch's)
// with the same symbols. No exception crosses the interface: errors are returned as text, and an empty text
// means success.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace farandole {

/// A message in progress. The message and its memory must live until a wait for it has returned or its mesh
/// is closed.
class gloo_message {
public:
  virtual ~gloo_message() = default;
  /// Blocks until the message is sent or received. If the wait takes longer than `patience`, Gloo closes the
  /// whole mesh.
  virtual std::string wait(std::chrono::milliseconds patience) = 0;
  /// Ends the current wait, or the next one if there is none. Thread-safe.
  virtual void give_up() = 0;
  /// Whether the connection broke before the message was done. Never blocks. Must not be called while a
  /// thread waits for the message.
  virtual bool broken() = 0;
};

class gloo_mesh {
public:
  virtual ~gloo_mesh() = default;
  /// The address at which this member expects the peer, as bytes.
  virtual std::string address(int peer) const = 0;
  /// Blocks until the connection is established or close() is called. Every member connects to all others in
  /// the order of ranks, so that no two members wait for each other.
  virtual std::string connect(int peer, const std::string& address) = 0;
  /// Starts a message. Null on failure, with the text in `reason`. Messages of one slot between the same two
  /// members arrive in the order of sending. Both ends must use the same length, because Gloo accepts a
  /// shorter message as complete.
  virtual gloo_message* send(int peer, std::uint64_t slot, const std::byte* memory, std::size_t bytes,
                             std::string& reason) = 0;
  virtual gloo_message* receive(int peer, std::uint64_t slot, std::byte* memory, std::size_t bytes,
                                std::string& reason) = 0;
  /// Closes every connection at once. Waiting threads return with an error, and the memory of messages is not
  /// accessed any more. Thread-safe; idempotent.
  virtual void close() = 0;
};

/// The function that the module exports. Opens a mesh between `members` members that listens on the address
/// `ip`. Null on failure, with the text in `reason`.
using gloo_open = gloo_mesh*(int rank, int members, const char* ip, std::string& reason);
inline constexpr const char* gloo_open_name = "farandole_gloo_open";
/// The file name of the module. It lies beside the program or library that loads it, or in lib/ beside that
/// folder.
inline constexpr const char* gloo_module_name = "libfarandole_gloo.so";

} // namespace farandole
