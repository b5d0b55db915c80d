#include "tools/farandole/chaos/plot.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

namespace farandole::chaos {

namespace {

constexpr double left = 60, right = 20, top = 110, bottom = 40, width = 1000, height = 380;
constexpr std::size_t most_parts = 240;

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string shown = text;
  return shown.ends_with(".0") ? shown.substr(0, shown.size() - 2) : shown;
}

/// The distance of grid lines: 1, 2 or 5 times a power of ten, so that there are about four of them.
double round_part(double whole) {
  const auto power = std::pow(10.0, std::floor(std::log10(std::max(whole, 1e-9) / 4)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (whole / (factor * power) <= 5)
      return factor * power;
  return 10 * power;
}

std::string text_at(double x, double y, const std::string& more, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + more + ">" + text + "</text>\n";
}

/// Converts times and rates to coordinates.
struct axes {
  double begin_ms, end_ms, limit;

  double x(double ms) const {
    const auto inside = std::clamp(ms, begin_ms, end_ms) - begin_ms;
    return left + (width - left - right) * inside / (end_ms - begin_ms);
  }
  double y(double rate) const { return height - bottom - (height - top - bottom) * rate / limit; }
};

std::string colour_of(fault_kind kind) {
  constexpr std::array<const char*, 6> colours{"#c0392b", "#8e44ad", "#2471a3",
                                               "#117a65", "#b9770e", "#283747"};
  return colours.at(static_cast<std::size_t>(kind));
}

std::string grid(const axes& on) {
  std::string text;
  for (double rate = 0; rate <= on.limit; rate += round_part(on.limit)) {
    const auto y = on.y(rate);
    text += "<path d=\"M" + number(left) + " " + number(y) + "H" + number(width - right) +
            "\" stroke=\"#dddddd\"/>\n" + text_at(left - 8, y + 4, " text-anchor=\"end\"", number(rate));
  }
  const auto seconds = (on.end_ms - on.begin_ms) / 1e3;
  for (double at = 0; at <= seconds; at += round_part(seconds))
    text += text_at(on.x(on.begin_ms + at * 1e3), height - bottom + 18, " text-anchor=\"middle\"",
                    number(at) + " s");
  return text + text_at(left, top - 12, " fill=\"#555555\"", "steps a second");
}

/// The pause from the fault until all members train again, in two colours: for detection and for the regroup.
std::string pause_of(const outcome& outcome, const axes& on) {
  if (!outcome.got.told_ms)
    return "";
  const auto band = [&](double from, double to, const char* colour) {
    return "<rect x=\"" + number(on.x(from)) + "\" y=\"" + number(top) + "\" width=\"" +
           number(std::max(on.x(to) - on.x(from), 1.0)) + "\" height=\"" + number(height - bottom - top) +
           "\" fill=\"" + colour + "\"/>\n";
  };
  const auto told = outcome.at_ms + *outcome.got.told_ms;
  return band(outcome.at_ms, told, "#f9e0a0") +
         (outcome.got.regrouped_ms ? band(told, told + *outcome.got.regrouped_ms, "#f0b0a0") : "");
}

std::string times_of(const outcome& outcome) {
  if (!outcome.got.told_ms)
    return "";
  const auto whole = *outcome.got.told_ms + outcome.got.regrouped_ms.value_or(0);
  return " " + number(std::round(whole)) + " ms";
}

/// A line at the time of the fault, with its name above. `row` staggers the names, so that they do not overlap.
std::string mark_of(const outcome& outcome, std::size_t row, const axes& on) {
  const auto x = on.x(outcome.at_ms), y = 46 + 13 * static_cast<double>(row % 4);
  const auto colour = colour_of(outcome.injected.kind);
  return "<path d=\"M" + number(x) + " " + number(y + 3) + "V" + number(height - bottom) + "\" stroke=\"" +
         colour + "\" stroke-dasharray=\"3 2\"/>\n" +
         text_at(x, y, " fill=\"" + colour + "\" text-anchor=\"" + (x > width * 0.8 ? "end" : "start") + "\"",
                 std::string(row_of(outcome.injected.kind).name) + times_of(outcome));
}

std::string rates_of(const std::vector<double>& rates, double begin_ms, double part_ms, const axes& on) {
  std::string points;
  for (std::size_t part = 0; part < rates.size(); ++part)
    points += number(on.x(begin_ms + (static_cast<double>(part) + 0.5) * part_ms)) + "," +
              number(on.y(rates[part])) + " ";
  return "<polyline points=\"" + points + "\" fill=\"none\" stroke=\"#222222\" stroke-width=\"1.5\"/>\n";
}

std::int64_t progress(const worker_event& event) {
  for (const char* name : {"step", "batch"})
    if (const auto found = event.counters.find(name); found != event.counters.end())
      return found->second;
  return -1;
}

/// Adds `steps` to the rates, spread evenly between these times.
void spread(double steps, double from_ms, double to_ms, double part_ms, std::vector<double>& rates) {
  for (std::size_t part = 0; part < rates.size(); ++part) {
    const auto begin = static_cast<double>(part) * part_ms;
    const auto shared = std::min(to_ms, begin + part_ms) - std::max(from_ms, begin);
    if (shared > 0)
      rates[part] += steps * shared / (to_ms - from_ms) * 1e3 / part_ms;
  }
}

} // namespace

std::vector<double> step_rates(const timeline& history, double begin_ms, double part_ms, std::size_t parts) {
  struct progress_of_member {
    double since_ms = 0;                  ///< time of the last commit, or of the beginning of the training
    std::optional<std::int64_t> progress; ///< steps at the last commit; a new member has none before it
    std::vector<double> rates;
  };
  std::map<std::int32_t, progress_of_member> members;
  for (const auto& event : history.events()) {
    auto& entry = members[event.slot];
    entry.rates.resize(parts);
    const auto reached = progress(event);
    if (event.text == "training")
      entry.since_ms = event.ms;
    if (event.text == "restored") // repeated steps count again
      entry.progress = reached;
    if (event.text != "commit")
      continue;
    const auto made = reached < 0 ? 1 : std::max<std::int64_t>(reached - entry.progress.value_or(reached), 0);
    if (entry.since_ms > 0 && event.ms > entry.since_ms)
      spread(static_cast<double>(made), entry.since_ms - begin_ms, event.ms - begin_ms, part_ms, entry.rates);
    entry.since_ms = event.ms;
    entry.progress = reached;
  }
  std::vector<double> rates(parts);
  for (const auto& [slot, own] : members)
    std::transform(own.rates.begin(), own.rates.end(), rates.begin(), rates.begin(),
                   [](double a, double b) { return std::max(a, b); });
  return rates;
}

std::string plot_of(std::span<const run_result> runs, const std::string& title) {
  assert(!runs.empty());
  axes on{runs.front().begin_ms, std::max(runs.back().end_ms, runs.front().begin_ms + 1), 1};
  const auto part_ms = std::max(250.0, (on.end_ms - on.begin_ms) / most_parts);
  std::vector<std::vector<double>> rates;
  for (const auto& run_result : runs) {
    const auto parts = std::clamp((run_result.end_ms - run_result.begin_ms) / part_ms, 1.0, 1.0 * most_parts);
    rates.push_back(
        step_rates(run_result.history, run_result.begin_ms, part_ms, static_cast<std::size_t>(parts)));
    on.limit = std::max(on.limit, *std::max_element(rates.back().begin(), rates.back().end()));
  }
  std::string pauses, marks, lines;
  std::size_t row = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const auto& outcome : runs[run].outcomes)
      if (!outcome.hit.empty()) {
        pauses += pause_of(outcome, on);
        marks += mark_of(outcome, row++, on);
      }
    lines += rates_of(rates[run], runs[run].begin_ms, part_ms, on);
  }
  const auto size = "width=\"" + number(width) + "\" height=\"" + number(height) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
         " font-family=\"sans-serif\" font-size=\"12\">\n<rect " + size + " fill=\"white\"/>\n" +
         text_at(left, 22, " font-size=\"15\"", title) + pauses + grid(on) + lines + marks + "</svg>\n";
}

} // namespace farandole::chaos
