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

/// All rows must have the same number of columns.
std::string table_of(const std::vector<row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column)
      line += row[column] + std::string(widths[column] - row[column].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

row row_for(std::size_t run, const outcome& outcome) {
  return {std::to_string(run),
          number(static_cast<double>(outcome.injected.at.count()) / 1e3, "%.1f"),
          std::string(row_of(outcome.injected.kind).name),
          outcome.hit.empty() ? "-" : outcome.hit,
          outcome.got.steps ? std::to_string(*outcome.got.steps) : "-",
          milliseconds(outcome.got.told_ms),
          milliseconds(outcome.got.regrouped_ms),
          outcome.note};
}

row row_for(std::string name, const run_result& run_result) {
  return {std::move(name), std::to_string(run_result.code),
          number((run_result.end_ms - run_result.begin_ms) / 1e3, "%.1f"),
          run_result.achieved.accuracy ? number(*run_result.achieved.accuracy, "%.6g") : "-",
          run_result.achieved.weights.value_or("-")};
}

} // namespace

std::string table_of_faults(std::span<const run_result> runs) {
  std::vector<row> rows{{"run", "at s", "fault", "hit", "steps lost", "detection ms", "regroup ms", ""}};
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const auto& outcome : runs[run].outcomes)
      rows.push_back(row_for(run + 1, outcome));
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
