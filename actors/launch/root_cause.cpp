#include "actors/launch/root_cause.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace farandole {

namespace {

constexpr std::string_view consequence_prefix = "farandole: this worker ends because another one did: ";

/// Returns the first rank that a message names, or -1.
std::int32_t rank_named_in(std::string_view message) {
  constexpr std::string_view word = "rank ";
  const auto position = message.find(word);
  std::int32_t rank = -1;
  if (position != std::string_view::npos) {
    const auto digits = message.substr(position + word.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  }
  return rank;
}

} // namespace

void root_cause::learn(const slot_fate& fate) {
  if (fate.left)
    departures_[fate.culprit] = *fate.left;
  fates_[fate.slot] = fate;
}

void root_cause::begin_generation(std::vector<std::int32_t> slots) {
  slots_ = std::move(slots);
  blamed_.clear();
  failures_.clear();
  fates_.clear();
  departures_.clear();
}

void root_cause::ended(std::int32_t slot, const process_end& exit_status, bool told_to_end) {
  ran_.insert(slot);
  if (told_to_end)
    return;
  endings_[slot] = exit_status.text();
  codes_[slot] = exit_status.code;
  if (exit_status.failed())
    failures_.push_back({slot, exit_status.code});
}

void root_cause::could_not_start(std::int32_t slot, std::string text, int code) {
  endings_[slot] = std::move(text);
  failures_.push_back({slot, code, false});
}

void root_cause::wrote(std::int32_t slot, const std::deque<std::string>& last_lines) {
  for (const auto& line : last_lines)
    if (line.starts_with(consequence_prefix))
      blamed_[slot] = rank_named_in(std::string_view(line).substr(consequence_prefix.size()));
}

bool root_cause::has_failed(std::int32_t slot) const {
  const auto left = departures_.find(slot);
  return (left != departures_.end() && left->second.failed()) ||
         std::any_of(failures_.begin(), failures_.end(),
                     [slot](const failure& failure) { return failure.slot == slot; });
}

std::int32_t root_cause::culprit_of(std::int32_t slot) const {
  const auto found = fates_.find(slot);
  const auto blamed = blamed_.find(slot);
  const bool says_so = blamed != blamed_.end();
  // A rendezvous in another process reports no fates to this launcher.
  if (found == fates_.end()) {
    const auto culprit = says_so ? slot_of(blamed->second) : slot;
    return ran_.contains(culprit) ? culprit : slot;
  }
  const auto& fate = found->second;
  const bool at_fault = fate.lost || fate.interrupted || has_failed(fate.culprit) || says_so;
  return fate.culprit >= 0 && at_fault ? fate.culprit : slot;
}

std::string root_cause::text_of(std::int32_t slot) const {
  const auto left = departures_.find(slot);
  const auto ending = endings_.find(slot);
  const std::string too_early = has_failed(slot) ? "" : " while others still had operations to complete";
  if (left != departures_.end() && (left->second.failed() || !has_failed(slot)))
    return left->second.text() + too_early;
  if (ending != endings_.end())
    return ending->second + too_early;
  return fates_.empty() ? "left the job, and others failed because of it" : "was lost";
}

bool root_cause::is_member(std::int32_t slot) const {
  return slots_.empty() || std::find(slots_.begin(), slots_.end(), slot) != slots_.end();
}

std::int32_t root_cause::slot_of(std::int32_t rank) const {
  if (slots_.empty())
    return rank;
  const auto position = static_cast<std::size_t>(rank);
  return rank >= 0 && position < slots_.size() ? slots_[position] : -1;
}

std::vector<std::int32_t> root_cause::failed() const {
  std::vector<std::int32_t> slots;
  for (const auto& failure : failures_)
    slots.push_back(failure.slot);
  std::sort(slots.begin(), slots.end());
  return slots;
}

auto root_cause::judge() const -> std::optional<conclusion> {
  if (failures_.empty())
    return std::nullopt;
  const auto is_own = [this](const failure& failure) { return culprit_of(failure.slot) == failure.slot; };
  auto cause = std::find_if(failures_.begin(), failures_.end(), [&](const failure& failure) {
    return is_own(failure) && is_member(failure.slot);
  });
  if (cause == failures_.end())
    cause = std::find_if(failures_.begin(), failures_.end(), is_own);
  if (cause != failures_.end())
    return conclusion{cause->slot, cause->code, cause->code, text_of(cause->slot), cause->ran};
  // The process at fault has exited with code 0, or had not ended before the launcher sent signals.
  const auto& first = failures_.front();
  const auto culprit = culprit_of(first.slot);
  const auto own = codes_.find(culprit);
  return conclusion{culprit, first.code, own == codes_.end() ? first.code : own->second, text_of(culprit)};
}

} // namespace farandole
