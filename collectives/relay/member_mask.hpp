// A bit set of members by their position in the process set. Sets of thousands of members are merged and compared
// a word at a time. Also converts between masks and runs of global ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messages/wire/gathered.hpp"

namespace farandole {

class member_mask {
public:
  static constexpr std::size_t word_bits = 64;

  member_mask() = default;
  explicit member_mask(std::size_t members) : words_((members + word_bits - 1) / word_bits) {}

  std::span<const std::uint64_t> words() const { return words_; }
  /// All words outside [first_word(), end_word()) are zero, so loops over a small branch of a large set can be
  /// limited to this range.
  std::size_t first_word() const { return first_; }
  std::size_t end_word() const { return end_; }
  void add(std::size_t member) {
    const auto word = member / word_bits;
    words_[word] |= std::uint64_t{1} << member % word_bits;
    widen(word, word + 1);
  }
  void add(const member_mask& more) {
    for (std::size_t i = more.first_; i < more.end_; ++i)
      words_[i] |= more.words_[i];
    if (more.first_ < more.end_)
      widen(more.first_, more.end_);
  }
  bool has(std::size_t member) const { return (words_[member / word_bits] >> member % word_bits & 1) != 0; }
  void clear() {
    std::fill(words_.begin(), words_.end(), 0);
    first_ = end_ = 0;
  }
  bool empty() const {
    return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
  }
  bool overlaps(const member_mask& other) const {
    std::uint64_t common = 0;
    for (std::size_t i = first_; i < end_; ++i)
      common |= words_[i] & other.words_[i];
    return common != 0;
  }
  bool within(const member_mask& other) const {
    std::uint64_t outside = 0;
    for (std::size_t i = first_; i < end_; ++i)
      outside |= words_[i] & ~other.words_[i];
    return outside == 0;
  }
  /// The lowest member; 0 if the mask is empty.
  std::size_t first() const {
    for (std::size_t i = first_; i < end_; ++i)
      if (words_[i] != 0)
        return i * word_bits + static_cast<std::size_t>(std::countr_zero(words_[i]));
    return 0;
  }
  /// Calls `visit(member)` in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = first_; i < end_; ++i)
      for (auto word = words_[i]; word != 0; word &= word - 1)
        visit(i * word_bits + static_cast<std::size_t>(std::countr_zero(word)));
  }
  friend bool operator==(const member_mask& a, const member_mask& b) { return a.words_ == b.words_; }

private:
  void widen(std::size_t first, std::size_t end) {
    first_ = end_ == 0 ? first : std::min(first_, first);
    end_ = std::max(end_, end);
  }

  std::vector<std::uint64_t> words_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

/// A mask that contains all of `members` members.
inline member_mask all_members(std::size_t members) {
  member_mask mask(members);
  for (std::size_t member = 0; member < members; ++member)
    mask.add(member);
  return mask;
}

/// A branch of the tree of relays, within one process set.
struct relay_branch {
  std::int32_t relay = 0;          ///< global rank
  std::vector<std::int32_t> ranks; ///< members of the set that are the relay or below it; ascending
};

/// The positions of `selected` in `ranks`, which must ascend. Empty if one of them is not in `ranks`.
inline std::optional<member_mask> mask_of(std::span<const std::int32_t> ranks,
                                          std::span<const std::int32_t> selected) {
  member_mask mask(ranks.size());
  for (auto rank : selected) {
    const auto position = std::lower_bound(ranks.begin(), ranks.end(), rank);
    if (position == ranks.end() || *position != rank)
      return std::nullopt;
    mask.add(static_cast<std::size_t>(position - ranks.begin()));
  }
  return mask;
}

/// The same for runs of ranks.
inline std::optional<member_mask> mask_of(std::span<const std::int32_t> ranks, const rank_runs& runs) {
  member_mask mask(ranks.size());
  for (const auto& run : runs) {
    const auto position =
        static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), run.first) - ranks.begin());
    // Ranks ascend strictly, so all of a run is present if its first and last rank are at the expected distance.
    if (run.count > ranks.size() - position || ranks[position] != run.first ||
        ranks[position + run.count - 1] != run.first + static_cast<std::int32_t>(run.count) - 1)
      return std::nullopt;
    for (std::size_t i = 0; i < run.count; ++i)
      mask.add(position + i);
  }
  return mask;
}

inline rank_runs runs_of(std::span<const std::int32_t> ranks, const member_mask& mask) {
  rank_runs runs;
  mask.for_each([&](std::size_t member) {
    const auto rank = ranks[member];
    if (runs.empty() || runs.back().first + static_cast<std::int32_t>(runs.back().count) != rank)
      runs.push_back({rank, 1});
    else
      ++runs.back().count;
  });
  return runs;
}

} // namespace farandole
