// A messenger between hosts: it is reached at an address, meets the other members once, and then carries the
// messages of one work after the other, until it leaves or gives up.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "collectives/transport/p2p/messenger.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The abort token is a futex word, news of the network are descriptors; nothing sleeps on both. So a sleep
/// is cut into slices, which grow to this.
inline constexpr int longest_slice_ms = 5;

/// Leaves in order when it is destroyed, unless it has failed.
class peer_messenger : public messenger {
public:
  /// How the other members reach this one: bytes, zeros among them.
  virtual std::string address() const = 0;
  /// The addresses of all members by rank; every member calls it, once. Blocks until this member has a proven
  /// connection to each. When it is through, nobody needs this member again before its next work.
  virtual error connect(std::span<const std::string> addresses, std::int32_t rank,
                        const deadline_and_abort& deadline) = 0;

  /// What an operator should know of how members met: who else was there. Mostly empty.
  virtual std::string remark() const { return {}; }

  /// The messages that follow belong to this work.
  virtual void begin(std::uint64_t sequence) = 0;
  /// Blocks until what was sent has left this process: nobody drives a messenger between two works.
  virtual error flush(const deadline_and_abort& deadline) = 0;
  /// Ends it for a reason of the caller's own: messages may still be under way from and into its memory.
  virtual void give_up(const error& reason) = 0;
};

} // namespace farandole
