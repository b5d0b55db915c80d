#include "tools/farandole/chaos/report.hpp"

#include <algorithm>
#include <cstdio>

namespace farandole::chaos {

namespace {

using row = std::vector<std::string>;

std::string number(double value, const char* form) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string milliseconds(const std::optional<double>& value) {
  return value ? number(*value, "%.0f") : "-";
}

/// All rows have as many columns.
std::string table_of(const std::vector<row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& each : rows)
    for (std::size_t column = 0; column < each.size(); ++column)
      widths[column] = std::max(widths[column], each[column].size());
  std::string text;
  for (const auto& each : rows) {
    std::string line;
    for (std::size_t column = 0; column < each.size(); ++column)
      line += each[column] + std::string(widths[column] - each[column].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

row row_for(std::size_t run, const outcome& each) {
  return {std::to_string(run),
          number(static_cast<double>(each.what.at.count()) / 1e3, "%.1f"),
          std::string(row_of(each.what.kind).name),
          each.hit.empty() ? "-" : each.hit,
          each.got.steps ? std::to_string(*each.got.steps) : "-",
          milliseconds(each.got.told_ms),
          milliseconds(each.got.regrouped_ms),
          each.note};
}

row row_for(std::string name, const run_result& each) {
  return {std::move(name), std::to_string(each.code), number((each.end_ms - each.begin_ms) / 1e3, "%.1f"),
          each.achieved.accuracy ? number(*each.achieved.accuracy, "%.6g") : "-",
          each.achieved.weights.value_or("-")};
}

} // namespace

std::string table_of_faults(std::span<const run_result> runs) {
  std::vector<row> rows{{"run", "at s", "fault", "hit", "steps lost", "detection ms", "regroup ms", ""}};
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const auto& each : runs[run].outcomes)
      rows.push_back(row_for(run + 1, each));
  return table_of(rows);
}

std::string table_of_runs(const run_result* undisturbed, std::span<const run_result> runs) {
  std::vector<row> rows{{"run", "exit code", "trained s", "accuracy", "weights"}};
  if (undisturbed)
    rows.push_back(row_for("undisturbed", *undisturbed));
  for (std::size_t run = 0; run < runs.size(); ++run)
    rows.push_back(row_for(std::to_string(run + 1), runs[run]));
  return table_of(rows);
}

} // namespace farandole::chaos
