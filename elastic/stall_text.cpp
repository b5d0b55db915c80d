#include "elastic/stall_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_names = 6;
constexpr std::size_t most_lines = 128;
/// The number of tensors of a set that causes_of() compares.
constexpr std::size_t most_compared = 64;

using tensor_mask = std::uint64_t;
static_assert(most_compared == 8 * sizeof(tensor_mask));

std::string seconds_text(std::chrono::nanoseconds duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(duration).count());
  return text.data();
}

/// "rank 3", "ranks 0, 1 and 3", "ranks 0, 1, 2, 3, 4, 5 and 40 more".
std::string ranks_text(std::span<const std::int32_t> ranks) {
  const bool is_long = ranks.size() > most_names + 1;
  const auto shown = is_long ? most_names : ranks.size();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "" : i + 1 == shown && !is_long ? " and " : ", ") + std::to_string(ranks[i]);
  return is_long ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

/// The missing ranks by the tensors for which they are missing.
std::map<tensor_mask, std::vector<std::int32_t>> ranks_by_missing(std::span<const stalled_tensor> tensors) {
  std::map<std::int32_t, tensor_mask> masks;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (const auto rank : tensors[i].missing)
      masks[rank] |= tensor_mask{1} << i;
  std::map<tensor_mask, std::vector<std::int32_t>> ranks;
  for (const auto& [rank, mask] : masks)
    ranks[mask].push_back(rank);
  return ranks;
}

// A missing rank is a member of the set and has not joined, so it has called each tensor for which it is not missing.
// Ranks call in different orders if each has called a tensor that the other has not called.
std::string order_conflict(std::span<const stalled_tensor> tensors,
                           const std::map<tensor_mask, std::vector<std::int32_t>>& ranks) {
  const auto name = [&](tensor_mask mask) {
    return printable_name(tensors[static_cast<std::size_t>(__builtin_ctzll(mask))].name);
  };
  for (auto first = ranks.begin(); first != ranks.end(); ++first)
    for (auto other = std::next(first); other != ranks.end(); ++other) {
      const auto called_by_first = other->first & ~first->first;
      const auto called_by_other = first->first & ~other->first;
      if (called_by_first == 0 || called_by_other == 0)
        continue;
      std::array waits{std::pair(&first->second, called_by_first),
                       std::pair(&other->second, called_by_other)};
      std::ranges::sort(waits, {}, [](const auto& wait) { return wait.first->front(); });
      const auto& [low, high] = waits;
      return ranks_text(*low.first) + (low.first->size() == 1 ? " waits for " : " wait for ") +
             name(low.second) + ", " + ranks_text(*high.first) + " for " + name(high.second) +
             ": they call in different orders";
    }
  return {};
}

std::string longest_text(std::span<const stalled_set> sets, std::size_t count) {
  std::vector<const stalled_tensor*> tensors;
  for (const auto& set : sets)
    for (const auto& tensor : set.tensors)
      tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](const auto* tensor) { return tensor->waited; });
  const auto shown = std::min(tensors.size(), most_names);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text +=
        (i == 0 ? "" : ", ") + printable_name(tensors[i]->name) + " for " + seconds_text(tensors[i]->waited);
  return count > shown ? text + " and " + std::to_string(count - shown) + " more" : text;
}

std::string of_set(std::uint32_t id) {
  return id == 0 ? std::string() : " of process set " + std::to_string(id);
}

/// For each process set its missing ranks and the causes.
std::string missing_text(std::span<const stalled_set> sets, std::chrono::nanoseconds blamed) {
  std::string text;
  for (const auto& set : sets) {
    text += (text.empty() ? " " : "\n") + std::string("Missing ranks") +
            (sets.size() == 1 ? "" : of_set(set.id)) + ":\n" + describe(set.tensors, blamed);
    for (const auto& cause : causes_of(set.tensors))
      text += "\n" + cause;
  }
  return text;
}

} // namespace

std::string describe(std::span<const stalled_tensor> tensors, std::chrono::nanoseconds blamed) {
  struct line {
    std::string names;
    std::size_t count = 0;
  };
  std::map<std::int32_t, line> lines;
  for (const auto& tensor : tensors) {
    const bool mark = blamed.count() > 0 && tensor.waited > blamed;
    for (auto rank : tensor.missing) {
      auto& line = lines[rank];
      ++line.count;
      if (line.count > most_names)
        continue;
      line.names += (line.count > 1 ? ", " : "") + printable_name(tensor.name) + (mark ? "!" : "");
    }
  }
  std::string text;
  std::size_t number = 0;
  for (const auto& [rank, line] : lines) {
    if (number++ == most_lines)
      return text + "\n… and " + std::to_string(lines.size() - most_lines) + " more ranks";
    text += (text.empty() ? "" : "\n") + std::to_string(rank) + ": [" + line.names +
            (line.count > most_names ? ", …]" : "]");
  }
  return text;
}

std::vector<std::string> causes_of(std::span<const stalled_tensor> tensors) {
  tensors = tensors.first(std::min(tensors.size(), most_compared));
  if (tensors.size() < 2)
    return {}; // the lines of describe() say everything
  const auto ranks = ranks_by_missing(tensors);
  std::vector<std::string> causes;
  if (auto conflict = order_conflict(tensors, ranks); !conflict.empty())
    causes.push_back(std::move(conflict));
  const auto all = ~tensor_mask{0} >> (most_compared - tensors.size());
  if (const auto none = ranks.find(all); none != ranks.end())
    causes.push_back(ranks_text(none->second) + (none->second.size() == 1 ? " has" : " have") +
                     " called none of these " + std::to_string(tensors.size()) + " tensors");
  return causes;
}

std::string stall_warning(std::span<const stalled_set> sets, std::size_t count, std::string_view setting,
                          std::chrono::nanoseconds blamed) {
  return "Some ranks have submitted tensors" + (sets.size() == 1 ? of_set(sets.front().id) : "") +
         " that others have not, for longer than " + std::string(setting) + ": " + longest_text(sets, count) +
         ". Either ranks do not submit the same tensors, or one is stuck in something else." +
         missing_text(sets, blamed);
}

std::string stall_end_notice(std::chrono::nanoseconds duration, std::string_view setting) {
  return "The stall is over: it lasted " + seconds_text(duration) + ", and no tensor waits for longer than " +
         std::string(setting) + " any more";
}

} // namespace farandole
