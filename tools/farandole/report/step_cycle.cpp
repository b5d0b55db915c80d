#include "tools/farandole/report/step_cycle.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace farandole {

namespace {

/// The kinds of steps of a program.
constexpr std::size_t most_kinds = 8;
/// Occurrences of a name from which it can begin steps: two whole steps.
constexpr std::size_t fewest_occurrences = 3;

/// Equal collections of names have equal sums of these numbers (splitmix64, Steele et al., OOPSLA 2014).
std::uint64_t scrambled(std::uint32_t name) {
  std::uint64_t value = (name + 1) * 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

using positions = std::vector<std::size_t>;

std::map<std::uint32_t, positions> places_of(std::span<const std::uint32_t> names) {
  std::map<std::uint32_t, positions> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    places[names[i]].push_back(i);
  return places;
}

/// Places between which the collections of names are equal, and the number of calls there.
struct usual_step {
  std::size_t count = 0;
  std::size_t calls = 0;
  std::size_t begin = 0; ///< of one such step
  std::size_t end = 0;
};

usual_step usual_step_of(const positions& places, std::span<const std::uint64_t> sums) {
  std::unordered_map<std::uint64_t, usual_step> kinds;
  for (std::size_t i = 0; i + 1 < places.size(); ++i) {
    auto& kind = kinds[sums[places[i + 1]] - sums[places[i]]];
    ++kind.count;
    kind.calls += places[i + 1] - places[i];
    kind.begin = places[i];
    kind.end = places[i + 1];
  }
  usual_step usual;
  for (const auto& [sum, kind] : kinds)
    if (kind.count > 1 && std::tie(kind.count, kind.calls) > std::tie(usual.count, usual.calls))
      usual = kind;
  return usual;
}

struct beginning {
  std::uint32_t name = 0;
  std::vector<std::uint32_t> step; ///< the names of the usual step
};

std::optional<beginning> by_equal_steps(std::span<const std::uint32_t> names,
                                        const std::map<std::uint32_t, positions>& places) {
  std::vector<std::uint64_t> sums(names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i)
    sums[i + 1] = sums[i] + scrambled(names[i]);
  std::optional<std::uint32_t> best;
  usual_step usual;
  for (const auto& [name, list] : places) {
    if (list.size() < fewest_occurrences)
      continue;
    const auto found = usual_step_of(list, sums);
    if (2 * found.calls < names.size() || found.count < usual.count)
      continue;
    if (found.count > usual.count || list.front() < places.at(*best).front()) {
      best = name;
      usual = found;
    }
  }
  if (!best)
    return std::nullopt;
  return beginning{*best,
                   {names.begin() + static_cast<std::ptrdiff_t>(usual.begin),
                    names.begin() + static_cast<std::ptrdiff_t>(usual.end)}};
}

std::optional<beginning> by_equal_counts(std::span<const std::uint32_t> names,
                                         const std::map<std::uint32_t, positions>& places) {
  std::map<std::size_t, std::size_t> calls_by_count;
  for (const auto& [name, list] : places) {
    calls_by_count[list.size()] += list.size();
    calls_by_count[list.size() - 1] += list.size(); // a record may begin or end within a step
  }
  const auto usual =
      std::ranges::max_element(calls_by_count, {}, [](const auto& entry) { return entry.second; });
  if (usual == calls_by_count.end() || usual->first < fewest_occurrences || 2 * usual->second < names.size())
    return std::nullopt;
  beginning found;
  std::size_t first = names.size();
  for (const auto& [name, list] : places)
    if (list.size() == usual->first || list.size() == usual->first + 1) {
      found.step.push_back(name);
      if (list.front() < first) {
        first = list.front();
        found.name = name;
      }
    }
  return found;
}

std::optional<beginning> find_beginning(std::span<const std::uint32_t> names) {
  const auto places = places_of(names);
  auto found = by_equal_steps(names, places);
  return found ? found : by_equal_counts(names, places);
}

std::vector<std::uint32_t> without(std::span<const std::uint32_t> names,
                                   std::vector<std::uint32_t> left_out) {
  std::ranges::sort(left_out);
  std::vector<std::uint32_t> rest;
  for (const auto name : names)
    if (!std::ranges::binary_search(left_out, name))
      rest.push_back(name);
  return rest;
}

std::vector<std::uint32_t> recurring(std::span<const std::uint32_t> names) {
  std::vector<std::uint32_t> once;
  for (const auto& [name, list] : places_of(names))
    if (list.size() == 1)
      once.push_back(name);
  return without(names, once);
}

/// Whether `name` occurs twice without any of `beginnings` in between.
bool recurs_between(std::span<const std::uint32_t> names, std::uint32_t name,
                    const std::vector<std::uint32_t>& beginnings) {
  bool open = false;
  for (const auto next : names) {
    if (next == name && std::exchange(open, true))
      return true;
    if (std::ranges::find(beginnings, next) != beginnings.end())
      open = false;
  }
  return false;
}

} // namespace

std::vector<std::uint32_t> step_beginnings(std::span<const std::uint32_t> names) {
  const auto all = recurring(names);
  auto rest = all;
  std::vector<std::uint32_t> beginnings;
  while (beginnings.size() < most_kinds) {
    const auto found = find_beginning(rest);
    if (!found)
      break;
    if (beginnings.empty() || recurs_between(all, found->name, beginnings))
      beginnings.push_back(found->name);
    rest = without(rest, found->step);
    if (rest.empty())
      break;
  }
  return beginnings;
}

} // namespace farandole
