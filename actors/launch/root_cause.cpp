#include "actors/launch/root_cause.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void root_cause::learn(const slot_fate& fate) {
  if (fate.left)
    departures_[fate.culprit] = *fate.left;
  fates_[fate.slot] = fate;
}

void root_cause::begin_generation() {
  failures_.clear();
  fates_.clear();
  departures_.clear();
}

void root_cause::ended(std::int32_t slot, const process_end& how, bool told_to_end) {
  if (told_to_end)
    return;
  endings_[slot] = how.text();
  if (how.failed())
    failures_.push_back({slot, how.code});
}

void root_cause::could_not_start(std::int32_t slot, std::string text, int code) {
  endings_[slot] = std::move(text);
  failures_.push_back({slot, code, false});
}

bool root_cause::has_failed(std::int32_t slot) const {
  const auto left = departures_.find(slot);
  return (left != departures_.end() && left->second.kind == departure_kind::uncaught_exception) ||
         std::any_of(failures_.begin(), failures_.end(),
                     [slot](const failure& one) { return one.slot == slot; });
}

std::int32_t root_cause::culprit_of(std::int32_t slot) const {
  const auto found = fates_.find(slot);
  if (found == fates_.end())
    return slot;
  const auto& fate = found->second;
  const bool at_fault = fate.lost || fate.interrupted || has_failed(fate.culprit);
  return fate.culprit >= 0 && at_fault ? fate.culprit : slot;
}

std::string root_cause::text_of(std::int32_t slot) const {
  const auto left = departures_.find(slot);
  const auto ending = endings_.find(slot);
  if (left != departures_.end() &&
      (left->second.kind == departure_kind::uncaught_exception || !has_failed(slot)))
    return left->second.text() + (has_failed(slot) ? "" : " while others had operations pending");
  return ending == endings_.end() ? "was lost" : ending->second;
}

auto root_cause::judge() const -> std::optional<verdict> {
  if (failures_.empty())
    return std::nullopt;
  const auto cause = std::find_if(failures_.begin(), failures_.end(),
                                  [this](const failure& one) { return culprit_of(one.slot) == one.slot; });
  if (cause != failures_.end())
    return verdict{cause->slot, cause->code, text_of(cause->slot), cause->ran};
  // The one at fault ended well, or has not ended before the launcher sent signals.
  const auto& first = failures_.front();
  const auto culprit = culprit_of(first.slot);
  return verdict{culprit, first.code, text_of(culprit)};
}

} // namespace farandole
