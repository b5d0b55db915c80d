#include "messages/settings/setting_reading.hpp"

#include <cassert>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace farandole {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size())
    return value;
  return std::nullopt;
}

/// Any finite or overflowing number; "nan", "inf" and hexadecimal are words.
std::optional<double> real_number(std::string_view text) {
  if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos)
    return std::nullopt;
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size())
    return std::nullopt;
  if (problem == std::errc::result_out_of_range)
    return text.starts_with('-') ? -std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::infinity();
  return problem == std::errc() ? std::optional(value) : std::nullopt;
}

bool only_digits(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+'))
    text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_choice(std::string_view choices, std::string_view value) {
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == value)
      return true;
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  return false;
}

std::string range_of(const setting_row& row, double factor) {
  if (!row.choices.empty()) {
    std::string words(row.choices);
    for (auto at = words.find('|'); at != std::string::npos; at = words.find('|', at + 2))
      words.replace(at, 1, ", ");
    return words;
  }
  const std::string unit = factor == 1 && !row.unit.empty() ? " " + std::string(row.unit) : "";
  return shown_number(row.minimum / factor) + " to " + shown_number(row.limit / factor) + unit;
}

std::string_view wanted(const setting_row& row) {
  switch (row.type) {
  case setting_type::flag:
    return "a switch (0, 1, true, false, yes, no, on, off)";
  case setting_type::integer:
    return "a whole number";
  default:
    return "a number";
  }
}

reading read_flag(const setting_row& row, std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on")
    return {reading_kind::good, true};
  if (word.empty() || word == "false" || word == "no" || word == "off")
    return {reading_kind::good, false};
  const auto value = real_number(word);
  if (!value)
    return {reading_kind::garbage};
  return {reading_kind::good, row.nonzero_is_on ? *value != 0 : *value > 0};
}

reading read_number(const setting_row& row, std::string_view text, double factor) {
  const auto value = real_number(text);
  if (!value || (row.type == setting_type::integer && !only_digits(text)))
    return {reading_kind::garbage};
  const double in_unit = *value * factor;
  if (in_unit < row.minimum || in_unit > row.limit)
    return {reading_kind::outside};
  switch (row.type) {
  case setting_type::integer: {
    const auto exact = whole_number(text.starts_with('+') ? text.substr(1) : text);
    assert(exact); // the range lies within 64 bits
    return {reading_kind::good, *exact * static_cast<std::int64_t>(factor)};
  }
  case setting_type::duration:
    return {reading_kind::good, std::chrono::nanoseconds(std::llround(in_unit * nanoseconds_per(row.unit)))};
  default:
    return {reading_kind::good, in_unit};
  }
}

reading read_text(const setting_row& row, std::string_view text) {
  if (row.choices.empty())
    return {row.is_valid && !row.is_valid(text) ? reading_kind::outside : reading_kind::good,
            std::string(text)};
  std::string word = lower(trimmed(text));
  if (is_choice(row.choices, word) || word == row.built_in)
    return {reading_kind::good, std::move(word)};
  return {row.forgiving ? reading_kind::garbage : reading_kind::outside};
}

} // namespace

double nanoseconds_per(std::string_view unit) {
  return unit == "ms" ? 1e6 : 1e9;
}

reading read_setting(const setting_row& row, std::string_view text, double factor) {
  switch (row.type) {
  case setting_type::flag:
    return read_flag(row, trimmed(text));
  case setting_type::text:
    return read_text(row, text);
  default:
    return read_number(row, trimmed(text), factor);
  }
}

std::string complaint(const setting_row& row, std::string_view name, std::string_view text, double factor,
                      reading_kind kind) {
  std::string line = std::string(row.name) + " (" + std::string(name) + ") = '" + std::string(text) + "' ";
  if (!row.choices.empty())
    return line + "is none of " + range_of(row, factor);
  if (!row.form.empty())
    return line + "is not " + std::string(row.form);
  if (kind == reading_kind::garbage)
    return line + "is not " + std::string(wanted(row));
  return line + "is out of range: " + range_of(row, factor);
}

} // namespace farandole
