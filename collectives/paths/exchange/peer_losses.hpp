// Which member a path has lost, and why. The first culprit stays, for what follows is mostly its echo; but a
// closed connection only makes one guess, and a goodbye, in which a member says why it leaves, knows better.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/paths/path.hpp"
#include "messages/error.hpp"

namespace farandole {

class peer_losses {
public:
  /// `names`: global ranks by rank within the path; empty: the same numbers.
  peer_losses(std::string_view path, std::vector<std::int32_t> names)
      : path_(path), names_(std::move(names)) {}

  std::string name_of(std::int32_t peer) const;

  void blame(std::int32_t peer, const std::string& why, bool guessed = false);
  /// That somebody who leaves has said why. Whether the source left in order: `culprit` is none of the
  /// members.
  bool hear_goodbye(std::int32_t source, std::int32_t culprit, std::int32_t members);
  /// A reason of this member's own. Whatever is there already stays.
  void fail(const error& why);
  /// No goodbye has come in time: these members' connections are closed, and nobody says which was first.
  void settle_guess(const std::vector<std::int32_t>& lost);

  bool guessed() const { return guessed_; }
  const error& failure() const { return failure_; }
  /// Who is to blame, or this member itself.
  std::int32_t culprit_or(std::int32_t self) const { return culprit_ >= 0 ? culprit_ : self; }
  /// Why a wait must end now; kind none: it may go on.
  error reason_to_stop(const limits& until) const;

private:
  std::string text(const std::string& lost) const;

  const std::string path_;
  const std::vector<std::int32_t> names_;
  std::int32_t culprit_ = -1;
  bool guessed_ = false; ///< from a closed connection alone
  std::string why_;
  error failure_;
};

} // namespace farandole
