#include "elastic/node_list.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest_quote = 60;
  return "'" + printable_name(text.substr(0, longest_quote)) + (text.size() > longest_quote ? "…'" : "'");
}

error too_many_hosts() {
  return wrong("it names more than " + std::to_string(most_hosts) + " hosts");
}

/// Numbers from `first` to `last`, padded with zeros to `width` characters.
struct number_range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;
};

/// A part of a group: literal text, or the ranges of one pair of brackets.
struct group_part {
  std::string_view literal;
  std::vector<number_range> ranges; ///< empty: the part is literal text
};

std::optional<std::uint64_t> parse_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, value);
  return problem == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// Parses "7" or "01-10".
expected<number_range> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto low = text.substr(0, dash);
  const auto first = parse_number(low);
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last)
    return wrong("between brackets, " + quoted(text) + " is neither a number nor a range such as 1-4");
  if (*last < *first)
    return wrong("the range " + quoted(text) + " ends before it begins");
  return number_range{*first, *last, low.size()};
}

/// The texts before, between and after the commas.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> items;
  for (auto comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    items.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  items.push_back(text);
  return items;
}

expected<std::vector<number_range>> parse_ranges(std::string_view content) {
  std::vector<number_range> ranges;
  for (const auto item : split_at_commas(content)) {
    const auto range = parse_range(item);
    if (!range)
      return range.error();
    ranges.push_back(*range);
  }
  return ranges;
}

expected<std::vector<group_part>> parse_group(std::string_view group) {
  if (group.empty())
    return wrong("a name is missing before or after a comma");
  std::vector<group_part> parts;
  for (auto rest = group; !rest.empty();) {
    const auto bracket = rest.find('[');
    const auto literal = rest.substr(0, bracket);
    if (!literal.empty()) {
      // A dash may follow brackets, but not begin the name.
      if (!is_host_name((parts.empty() ? "" : "n") + std::string(literal)))
        return wrong(quoted(literal) + " in " + quoted(group) + " cannot be part of a host name");
      parts.push_back({literal, {}});
    }
    if (bracket == std::string_view::npos)
      break;
    const auto end = rest.find(']', bracket);
    if (end == std::string_view::npos)
      return wrong("the bracket in " + quoted(group) + " is not closed");
    auto ranges = parse_ranges(rest.substr(bracket + 1, end - bracket - 1));
    if (!ranges)
      return ranges.error();
    parts.push_back({{}, std::move(*ranges)});
    rest.remove_prefix(end + 1);
  }
  return parts;
}

/// The number of values of a part; at most `most_hosts + 1`.
std::size_t count_of(const group_part& part) {
  std::size_t count = part.ranges.empty();
  for (const auto& range : part.ranges) {
    const auto steps = std::min<std::uint64_t>(range.last - range.first, most_hosts);
    count = std::min<std::size_t>(count + steps + 1, most_hosts + 1);
  }
  return count;
}

std::size_t longest_of(const group_part& part) {
  auto longest = part.literal.size();
  for (const auto& range : part.ranges)
    longest = std::max({longest, range.width, std::to_string(range.last).size()});
  return longest;
}

error check_size(std::string_view group, const std::vector<group_part>& parts, std::size_t hosts_before) {
  std::size_t hosts = 1;
  std::size_t length = 0;
  for (const auto& part : parts) {
    hosts *= count_of(part); // both factors are at most most_hosts + 1
    length += longest_of(part);
    if (hosts > most_hosts - hosts_before)
      return too_many_hosts();
  }
  if (length > longest_host_name)
    return wrong("the names of " + quoted(group) + " have more than " + std::to_string(longest_host_name) +
                 " characters");
  return {};
}

std::string padded(std::uint64_t number, std::size_t width) {
  const auto digits = std::to_string(number);
  return std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
}

std::vector<std::string> names_of(const std::vector<group_part>& parts) {
  std::vector<std::string> names = {""};
  for (const auto& part : parts) {
    if (part.ranges.empty()) {
      for (auto& name : names)
        name += part.literal;
      continue;
    }
    std::vector<std::string> longer;
    for (const auto& name : names)
      for (const auto& range : part.ranges)
        for (std::uint64_t step = 0; step <= range.last - range.first; ++step)
          longer.push_back(name + padded(range.first + step, range.width));
    names = std::move(longer);
  }
  return names;
}

/// The end of the first group: a comma outside of brackets, or the end of the list.
std::size_t group_end(std::string_view list) {
  bool inside = false;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == ',' && !inside)
      return at;
    inside = list[at] == '[' || (inside && list[at] != ']');
  }
  return std::string_view::npos;
}

/// Parses "2" or "2(x3)": a number, and how often it occurs.
std::optional<std::pair<std::int32_t, std::int32_t>> parse_count(std::string_view text) {
  const auto parenthesis = text.find('(');
  const auto count = parse_slots(text.substr(0, parenthesis));
  std::optional<std::int32_t> repetitions = 1;
  if (parenthesis != std::string_view::npos) {
    const auto rest = text.substr(parenthesis);
    if (!rest.starts_with("(x") || !rest.ends_with(')'))
      return std::nullopt;
    repetitions = parse_slots(rest.substr(2, rest.size() - 3));
  }
  if (!count || *count < 1 || !repetitions || *repetitions < 1)
    return std::nullopt;
  return std::pair(*count, *repetitions);
}

} // namespace

bool is_host_name(std::string_view text) {
  const auto entry = parse_host_entry(text);
  return entry && !entry->slots && entry->name.size() == text.size();
}

expected<std::vector<std::string>> expand_node_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (;;) {
    const auto end = group_end(list);
    const auto group = trimmed(list.substr(0, end));
    const auto parts = parse_group(group);
    if (!parts)
      return parts.error();
    if (auto problem = check_size(group, *parts, hosts.size()))
      return problem;
    for (auto& name : names_of(*parts))
      hosts.push_back(std::move(name));
    if (end == std::string_view::npos)
      return hosts;
    list.remove_prefix(end + 1);
  }
}

expected<std::vector<std::int32_t>> expand_node_counts(std::string_view counts) {
  std::vector<std::int32_t> numbers;
  for (const auto item : split_at_commas(counts)) {
    const auto text = trimmed(item);
    const auto count = parse_count(text);
    if (!count)
      return wrong(quoted(text) + " is not of the form 2 or 2(x3), with numbers from 1 to " +
                   std::to_string(most_slots));
    if (numbers.size() + static_cast<std::size_t>(count->second) > most_hosts)
      return too_many_hosts();
    numbers.insert(numbers.end(), static_cast<std::size_t>(count->second), count->first);
  }
  return numbers;
}

} // namespace farandole
