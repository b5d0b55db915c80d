#include "tools/farandole/chaos/comparison.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace farandole::chaos {

namespace {

constexpr std::string_view weights_mark = "WEIGHTS ";
constexpr std::string_view accuracy_mark = "accuracy";

/// The number behind the last "accuracy" in any case: the one after a colon or "=" if there is such a sign, else
/// the first one. NaN if it is not finite.
std::optional<double> accuracy_in(std::string_view line) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  const auto at = std::find_end(line.begin(), line.end(), accuracy_mark.begin(), accuracy_mark.end(), same);
  if (at == line.end())
    return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(at - line.begin()) + accuracy_mark.size());
  if (const auto sign = line.find_first_of(":="); sign != std::string_view::npos)
    line.remove_prefix(sign + 1);
  const auto is_letter = [](unsigned char letter) { return std::isalpha(letter) != 0; };
  const auto is_of_word = [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '.'; };
  for (auto word = line.begin(); (word = std::find_if(word, line.end(), is_of_word)) != line.end();
       word = std::find_if_not(word, line.end(), is_of_word)) {
    double value = 0;
    const auto [end, problem] = std::from_chars(word, line.end(), value);
    if (problem == std::errc{} && (std::isfinite(value) || end == line.end() || !is_letter(*end)))
      return std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string said(const std::optional<std::string>& weights) {
  return weights ? *weights : "none";
}

/// Returns whether any run has printed weights. If so, all runs must have printed the same.
bool judge_weights(const achievement& undisturbed, std::span<const achievement> disturbed, verdict& into) {
  const auto told = [](const achievement& entry) { return entry.weights.has_value(); };
  if (!told(undisturbed) && std::none_of(disturbed.begin(), disturbed.end(), told))
    return false;
  const auto other = std::find_if(disturbed.begin(), disturbed.end(), [&](const achievement& entry) {
    return !entry.weights || entry.weights != undisturbed.weights;
  });
  if (other == disturbed.end()) {
    into.text += "weights: equal to those of the undisturbed run\n";
    return true;
  }
  into.good = false;
  into.text += "weights: not equal. Undisturbed: " + said(undisturbed.weights) + "; disturbed, run " +
               std::to_string(other - disturbed.begin() + 1) + ": " + said(other->weights) + "\n";
  return true;
}

bool judge_accuracy(const achievement& undisturbed, std::span<const achievement> disturbed, double tolerance,
                    verdict& into) {
  if (!undisturbed.accuracy)
    return false;
  const auto told = [](const achievement& entry) {
    return entry.accuracy && !std::isnan(*entry.accuracy) ? *entry.accuracy : -1;
  };
  const auto worst = std::ranges::min_element(disturbed, {}, told);
  const auto run = ", run " + std::to_string(worst - disturbed.begin() + 1) + ": ";
  const bool reached = worst->accuracy && *worst->accuracy >= *undisturbed.accuracy - tolerance;
  into.good = into.good && reached;
  into.text += std::string("accuracy: ") + (reached ? "reached" : "not reached") +
               ". Undisturbed: " + number(*undisturbed.accuracy) + "; disturbed" +
               (disturbed.size() > 1 ? ", least" : "") + run +
               (worst->accuracy ? number(*worst->accuracy) : "none") + " (--tolerance " + number(tolerance) +
               ")\n";
  return true;
}

} // namespace

void take_line(std::string_view line, achievement& into) {
  if (const auto at = line.find(weights_mark); at != std::string_view::npos)
    into.weights = line.substr(at + weights_mark.size());
  if (const auto accuracy = accuracy_in(line))
    into.accuracy = accuracy;
}

verdict compare(const achievement& undisturbed, std::span<const achievement> disturbed, double tolerance,
                bool must_compare) {
  verdict result;
  if (disturbed.empty())
    return {false, "no run to compare\n"};
  const bool weights = judge_weights(undisturbed, disturbed, result);
  const bool accuracy = judge_accuracy(undisturbed, disturbed, tolerance, result);
  if (!weights)
    result.text += "weights: not compared; the script prints no line \"WEIGHTS ...\"\n";
  if (!weights && !accuracy) {
    result.text += "There is nothing to compare: the script tells no accuracy either\n";
    result.good = !must_compare;
  }
  return result;
}

} // namespace farandole::chaos
