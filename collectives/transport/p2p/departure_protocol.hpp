// The departure protocol of a messenger. Members that leave send each other a goodbye with the reason, so
// that a failure is blamed on the member that failed. Without it, the blame would fall on the first member to
// notice the failure, because most others see only that this member's connections are closed. This class
// decides what a goodbye means, which member to blame, and which members to notify. It does no I/O: a
// transport reports its observations to it, asks it why a wait must end, and carries its goodbyes.
//
// The first culprit is kept, because later reports are mostly consequences of its failure. A closed
// connection is only a guess, however: the transport then listens for a while, and a goodbye replaces the
// guess.
//
// Must be used by one thread, like the messenger.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/p2p/goodbye.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

struct departure_times {
  /// Maximum time to wait for a goodbye before a guess is accepted.
  std::chrono::milliseconds goodbye_wait{10};
  /// Time limit for the goodbyes of a member that fails. The others learn of the failure sooner or later
  /// without them.
  std::chrono::milliseconds last_words{20};
  /// Time limit for the goodbyes of a member that leaves in order.
  std::chrono::milliseconds orderly{500};
};

/// The messages that a leaving member must send.
struct goodbye_round {
  goodbye message;
  std::vector<std::int32_t> recipients; ///< all members except those that leave() excludes
  std::chrono::milliseconds patience;   ///< time limit for all messages together
};

class departure_protocol {
public:
  /// `names`: global ranks by rank within the path, for error texts; if empty, the ranks within the path are
  /// used.
  departure_protocol(std::string_view path, std::vector<std::int32_t> names,
                     const departure_times& times = {})
      : path_(path), names_(std::move(names)), times_(times) {}

  /// Sets this member's rank and the number of members. Must precede all functions below.
  void meet(std::int32_t rank, std::int32_t members);
  std::string name_of(std::int32_t peer) const;

  // ---- observations of the transport. After leave(), they blame no member.

  /// The connection to the peer is closed. The blame is a guess; there is none if the peer has left in order.
  void lose_connection(std::int32_t peer, const std::string& reason);
  /// A message to or from the peer failed. The blame is a guess, unless the peer has left in order.
  void lose_message(std::int32_t peer, const std::string& reason);
  /// A message to or from the peer is in progress. It is lost if the peer has left in order.
  void require(std::int32_t peer);
  /// The peer itself violated the protocol.
  void accuse(std::int32_t peer, const std::string& reason);
  /// A goodbye has been received. Only the first one of each member counts; malformed bytes violate the
  /// protocol.
  void receive_goodbye(std::int32_t source, std::span<const std::byte> bytes);
  /// Sets a failure of this member's own, unless there is a failure already.
  void fail(const error& reason);
  /// No goodbye was received in time. Blames all members whose connections are closed, since their order is
  /// unknown.
  void settle();

  // ---- decisions

  /// Whether the failure is a guess. The transport must then listen for a goodbye for goodbye_wait(), then call
  /// settle().
  bool guessed() const { return guessed_; }
  std::chrono::milliseconds goodbye_wait() const { return times_.goodbye_wait; }
  /// Kind none: the messenger may continue. Otherwise it must call leave(), and sends and receives no more
  /// messages.
  const error& failure() const { return failure_; }
  /// The reason why a wait must end now; kind none: it may continue. `limit`: see stop_reason(). `awaited`: the
  /// awaited peer, if known.
  error reason_to_stop(const deadline_and_abort& deadline, std::chrono::steady_clock::time_point limit,
                       std::int32_t awaited = -1) const;
  /// The member to blame; this member itself if there is no other.
  std::int32_t culprit() const { return culprit_ >= 0 ? culprit_ : rank_; }

  /// The last decision: the goodbyes to send before all connections are closed. They announce an orderly
  /// departure unless there is a failure. Members whose connection is closed or that have left in order get
  /// none. The culprit gets one only if it is known to wait for a message of this member, that is, if its
  /// message was `awaited`.
  goodbye_round leave(const awaited_message& awaited = {});
  /// Whether every peer has sent a goodbye or closed its connection, so that no further goodbye can be
  /// received.
  bool all_departed() const;
  /// Appends to the failure if a peer that sent a goodbye waited for one of these messages with another
  /// length.
  void compare_lengths(std::span<const awaited_message> own);

private:
  struct peer {
    bool closed = false; ///< whether its connection is closed
    std::optional<goodbye> received_goodbye;
    bool left() const { return received_goodbye && received_goodbye->culprit == goodbye::in_order; }
  };

  void blame(std::int32_t culprit, const std::string& reason, bool guessed);
  std::string text(const std::string& lost, bool several) const;
  std::string difference(const awaited_message& own) const;

  const std::string path_;
  const std::vector<std::int32_t> names_;
  const departure_times times_;
  std::vector<peer> peers_; ///< by rank
  std::int32_t rank_ = 0;
  std::int32_t culprit_ = -1;
  bool guessed_ = false; ///< whether the failure is a guess; false without a failure
  bool leaving_ = false;
  std::string reason_;
  error failure_;
};

} // namespace farandole
