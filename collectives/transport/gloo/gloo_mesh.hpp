// All of Gloo that is used here, as one interface: connections between each two members of a set, and
// messages over them. Behind it stands a module of its own (gloo_module.cpp), for the process may hold
// another Gloo already (PyTorch's), whose symbols have the same names. Nothing throws across it: what went
// wrong comes back as text, and no text means that nothing did.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace farandole {

/// On its way, until waited for or its mesh is closed; only then may it and its memory go.
class gloo_message {
public:
  virtual ~gloo_message() = default;
  /// Blocks until it is sent, or received. A wait that takes longer than `patience` closes the whole mesh:
  /// that is how Gloo does it.
  virtual std::string wait(std::chrono::milliseconds patience) = 0;
  /// Ends a wait, one that is to come if there is none. Thread-safe.
  virtual void give_up() = 0;
  /// Whether its connection has broken before it was done. Never blocks; not while somebody waits.
  virtual bool broken() = 0;
};

class gloo_mesh {
public:
  virtual ~gloo_mesh() = default;
  /// Where this member expects the peer: bytes.
  virtual std::string address(int peer) const = 0;
  /// Blocks until there is a connection, or close(). Everybody connects to everybody, in the order of ranks:
  /// then nobody waits for one that waits for him.
  virtual std::string connect(int peer, const std::string& address) = 0;
  /// Null: `why` says why not. Messages of one slot between the same two members arrive in the order of
  /// sending; both must be of one length, for a shorter one is taken for a whole one.
  virtual gloo_message* send(int peer, std::uint64_t slot, const std::byte* memory, std::size_t bytes,
                             std::string& reason) = 0;
  virtual gloo_message* receive(int peer, std::uint64_t slot, std::byte* memory, std::size_t bytes,
                                std::string& reason) = 0;
  /// Every connection, now: who waits is told, and no memory of any message is touched any more. Thread-safe;
  /// idempotent.
  virtual void close() = 0;
};

/// What the module exports. Between so many members, listening on this IP address. Null: `why` says why not.
using gloo_open = gloo_mesh*(int rank, int members, const char* ip, std::string& reason);
inline constexpr const char* gloo_open_name = "farandole_gloo_open";
/// Lies beside the program or library that loads it, or in lib/ beside that one's folder.
inline constexpr const char* gloo_module_name = "libfarandole_gloo.so";

} // namespace farandole
