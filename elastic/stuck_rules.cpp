#include "elastic/stuck_rules.hpp"

#include <algorithm>
#include <cstdio>

#include "messages/settings/settings.hpp"

namespace farandole {

namespace {

std::optional<silence> longest(std::span<const silence> silent, std::chrono::nanoseconds nanoseconds) {
  const auto found =
      std::max_element(silent.begin(), silent.end(), [](const silence& silent_member, const silence& other) {
        return silent_member.lasted < other.lasted;
      });
  return found == silent.end() || found->lasted < nanoseconds ? std::nullopt : std::optional(*found);
}

std::string seconds_of(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

} // namespace

stuck_rules stuck_rules::of(const settings& values) {
  stuck_rules rules;
  rules.operation_timeout = values.duration(setting::operation_timeout);
  rules.operation_setting = values.cited(setting::operation_timeout);
  if (values.flag(setting::elastic))
    rules.stuck_timeout = values.duration(setting::stuck_timeout);
  rules.stuck_setting = values.cited(setting::stuck_timeout);
  return rules;
}

stuck_rules::duration stuck_rules::period() const {
  constexpr std::chrono::milliseconds shortest{50};
  constexpr std::chrono::milliseconds longest_period{500};
  const auto due =
      stuck_timeout > duration::zero() ? std::min(stuck_timeout, operation_timeout) : operation_timeout;
  return std::clamp<duration>(due / 8, shortest, longest_period);
}

std::optional<silence> stuck_rules::lost(std::span<const silence> silent) const {
  return stuck_timeout > duration::zero() ? longest(silent, std::max(stuck_timeout, minimum()))
                                          : std::nullopt;
}

std::optional<silence> stuck_rules::holds_up(std::span<const silence> silent, duration waited) const {
  return waited < operation_timeout ? std::nullopt : longest(silent, std::max(operation_timeout, minimum()));
}

std::optional<silence> stuck_rules::behind_failure(std::span<const silence> silent, bool late) const {
  return longest(silent, late ? minimum() + 2 * period() : operation_timeout / 2);
}

std::string stuck_rules::complaint(const silence& silent_member) {
  return "has made no progress for " + seconds_of(silent_member.lasted) +
         ": its process is stopped, waits for a disk, or is swapped out";
}

std::string stuck_rules::loss_complaint(const silence& silent_member) const {
  return complaint(silent_member) + "; " + stuck_setting + " has passed";
}

std::string stuck_rules::timeout_complaint(const std::string& member, const silence& silent_member) const {
  return "operations wait for " + member + ", which " + complaint(silent_member) + "; " + operation_setting +
         " has passed";
}

} // namespace farandole
