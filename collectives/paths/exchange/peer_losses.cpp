#include "collectives/paths/exchange/peer_losses.hpp"

namespace farandole {

std::string peer_losses::name_of(std::int32_t peer) const {
  const auto at = static_cast<std::size_t>(peer);
  return "rank " + std::to_string(at < names_.size() ? names_[at] : peer);
}

std::string peer_losses::text(const std::string& lost) const {
  return lost + (lost.find(',') == std::string::npos ? " is" : " are") + " lost to the " + path_ +
         " path: " + why_;
}

void peer_losses::blame(std::int32_t peer, const std::string& why, bool guessed) {
  if (failure_ && (guessed || !guessed_))
    return;
  guessed_ = guessed;
  culprit_ = peer;
  why_ = why;
  failure_ = {error_kind::disconnected, text(name_of(peer))};
}

bool peer_losses::hear_goodbye(std::int32_t source, std::int32_t culprit, std::int32_t members) {
  if (culprit < 0 || culprit >= members)
    return true;
  if (culprit == source)
    blame(source, "it gave the operation up");
  else
    blame(culprit, name_of(source) + " has lost it");
  return false;
}

void peer_losses::fail(const error& why) {
  if (!failure_)
    failure_ = why;
}

void peer_losses::settle_guess(const std::vector<std::int32_t>& lost) {
  guessed_ = false;
  std::string names;
  for (const auto peer : lost)
    names += (names.empty() ? "" : ", ") + name_of(peer);
  failure_.text = text(names);
}

error peer_losses::reason_to_stop(const limits& until) const {
  if (failure_)
    return failure_;
  if (until.abort.raised())
    return {error_kind::disconnected,
            "the operation was aborted: its generation or its process set has ended"};
  if (std::chrono::steady_clock::now() >= until.deadline)
    return {error_kind::timed_out,
            "the " + path_ + " path waited in vain: " + until.deadline_setting + " has passed"};
  return {};
}

} // namespace farandole
