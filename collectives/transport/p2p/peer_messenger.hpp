// A messenger between hosts. It has an address, connects once to the other members, and then carries the
// messages of one work after the other until it leaves or fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "collectives/transport/p2p/messenger.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The upper limit of a sleep. The abort token is a futex word and network events are descriptors, and a
/// thread cannot sleep on both. A sleep is therefore cut into slices, which grow to this length.
inline constexpr int longest_slice_ms = 5;

/// The destructor leaves in order, unless the messenger has failed.
class peer_messenger : public messenger {
public:
  /// The address at which other members reach this one: bytes, which may include zeros.
  virtual std::string address() const = 0;
  /// Connects to all members. `addresses` are theirs, by rank. Every member calls it once. Blocks until this
  /// member has a verified connection to each. After it has returned, no other member waits for this one
  /// until its next work.
  virtual error connect(std::span<const std::string> addresses, std::int32_t rank,
                        const deadline_and_abort& deadline) = 0;

  /// A message for the operator about the connecting, such as strangers that connected. Usually empty.
  virtual std::string remark() const { return {}; }

  /// Starts a work: the messages that follow belong to it. `timeout`: how long its waits may be without progress, also
  /// after their deadline. Zero, and in connect(): until their deadline only.
  virtual void begin(std::uint64_t sequence, std::chrono::nanoseconds timeout) = 0;
  /// Blocks until all sent messages have left this process, because no thread drives the messenger between
  /// two works.
  virtual error flush(const deadline_and_abort& deadline) = 0;
  /// Closes the messenger for the caller's reason. Messages from and into the caller's memory may still be in
  /// progress.
  virtual void give_up(const error& reason) = 0;
  /// Total time that wait() and flush() have spent while no byte could be moved; 0 if this is not measured.
  virtual std::chrono::nanoseconds waited() const { return {}; }
};

} // namespace farandole
