// The end of a messenger: members that leave say goodbye to each other and why, so that a failure is blamed
// on the member that failed and not on the first to notice it, whose closed connections are all that most
// others see. This class decides what a goodbye means, whom to blame, and what to tell whom; it does no I/O.
// A transport reports to it what it sees, asks it why a wait must end, and carries its goodbyes.
//
// The first culprit stays, for what follows is mostly the echo of its failure. But a closed connection makes
// only a guess: a transport that has one listens for a while, since a goodbye knows better.
//
// Used by one thread, like the messenger.
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
  /// For a goodbye to come, before a guess is believed.
  std::chrono::milliseconds hearing{10};
  /// For the goodbyes of a member that gives up: the others learn of it sooner or later anyhow.
  std::chrono::milliseconds last_words{20};
  /// For the goodbyes of a member that leaves in order.
  std::chrono::milliseconds orderly{500};
};

/// What a member that leaves sends.
struct goodbye_round {
  goodbye message;
  std::vector<std::int32_t> recipients; ///< all that the departure protocol knows no reason to leave out
  std::chrono::milliseconds patience;   ///< in all
};

class departure_protocol {
public:
  /// `names`: global ranks by rank within the path, for error texts; empty: the same numbers.
  departure_protocol(std::string_view path, std::vector<std::int32_t> names,
                     const departure_times& times = {})
      : path_(path), names_(std::move(names)), times_(times) {}

  /// From here on there are peers to blame and to tell.
  void meet(std::int32_t rank, std::int32_t members);
  std::string name_of(std::int32_t peer) const;

  // ---- what the transport sees. After leave(), none of it blames anybody.

  /// The connection to the peer is closed: a guess, unless the peer has left in order.
  void lose_connection(std::int32_t peer, const std::string& reason);
  /// A message to or from the peer failed: a guess, unless the peer has left in order.
  void lose_message(std::int32_t peer, const std::string& reason);
  /// A message to or from the peer is under way, and lost if the peer has left in order.
  void require(std::int32_t peer);
  /// The peer itself broke a rule.
  void accuse(std::int32_t peer, const std::string& reason);
  /// A goodbye has come. Only the first of each member counts; one that is none is a rule broken.
  void hear(std::int32_t source, std::span<const std::byte> bytes);
  /// A reason of this member's own. Whatever is there already stays.
  void fail(const error& reason);
  /// No goodbye has come in time: blames all whose connections are closed, since nobody says which was first.
  void settle();

  // ---- what follows

  /// Whether to listen for a goodbye, for hearing(), and then to settle().
  bool guessed() const { return guessed_; }
  std::chrono::milliseconds hearing() const { return times_.hearing; }
  /// Kind none: the messenger may go on. Otherwise it must leave(), and nothing is sent or received any more.
  const error& failure() const { return failure_; }
  /// Why a wait must end now; kind none: it may go on. `awaited`: the peer that is waited for, if known.
  error reason_to_stop(const deadline_and_abort& deadline, std::int32_t awaited = -1) const;
  /// The member to blame; this member itself where no other is.
  std::int32_t culprit() const { return culprit_ >= 0 ? culprit_ : rank_; }

  /// The last decision: what to send before all connections are closed. In order, unless there is a failure.
  /// The culprit is told only where it is known to listen for it: where its message was `awaited`.
  goodbye_round leave(const awaited_message& awaited = {});
  /// Whether every peer has said goodbye or is gone, so that there is nothing left to listen for.
  bool all_heard() const;
  /// Where a peer that said goodbye waited for one of these messages with another length, the failure says
  /// so.
  void compare_lengths(std::span<const awaited_message> own);

private:
  struct peer {
    bool closed = false; ///< its connection
    std::optional<goodbye> heard;
    bool left() const { return heard && heard->culprit == goodbye::in_order; }
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
  bool guessed_ = false; ///< the failure is a guess. Never without a failure
  bool leaving_ = false;
  std::string reason_;
  error failure_;
};

} // namespace farandole
