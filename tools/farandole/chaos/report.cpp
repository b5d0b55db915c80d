#include "tools/farandole/chaos/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace farandole::chaos {

namespace {

using row = std::array<std::string, 7>;

std::string number(double value, const char* form) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string milliseconds(const std::optional<double>& value) {
  return value ? number(*value, "%.0f") : "-";
}

row row_for(const outcome& each) {
  return {number(static_cast<double>(each.what.at.count()) / 1e3, "%.1f"),
          std::string(row_of(each.what.kind).name),
          each.hit.empty() ? "-" : each.hit,
          each.got.steps ? std::to_string(*each.got.steps) : "-",
          milliseconds(each.got.told_ms),
          milliseconds(each.got.regrouped_ms),
          each.note};
}

} // namespace

std::string table_of(const std::vector<outcome>& outcomes) {
  std::vector<row> rows{
      {"at s", "fault", "hit", "steps lost", "told after ms", "then training after ms", ""}};
  for (const auto& each : outcomes)
    rows.push_back(row_for(each));
  std::string text;
  for (const auto& each : rows) {
    std::string line;
    for (std::size_t column = 0; column < each.size(); ++column) {
      std::size_t width = 0;
      for (const auto& other : rows)
        width = std::max(width, other[column].size());
      line += each[column] + std::string(width - each[column].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

} // namespace farandole::chaos
