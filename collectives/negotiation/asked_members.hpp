// The members that have asked, for each row of the request table. A bit matrix, so that the requests that a relay
// gathers from thousands of members are counted and compared a word at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/relay/member_mask.hpp"

namespace farandole {

class asked_members {
public:
  explicit asked_members(std::size_t members)
      : words_((members + member_mask::word_bits - 1) / member_mask::word_bits) {}

  /// Appends a row in which no member has asked.
  void add_row() { bits_.resize(bits_.size() + words_); }

  bool has(std::uint32_t row, std::int32_t member) const {
    return (words(row)[word_of(member)] & bit_of(member)) != 0;
  }
  /// Whether any of `members` has asked.
  bool has_any(std::uint32_t row, const member_mask& members) const {
    std::uint64_t common = 0;
    for (auto word = members.first_word(); word < members.end_word(); ++word)
      common |= words(row)[word] & members.words()[word];
    return common != 0;
  }
  void add(std::uint32_t row, std::int32_t member) { words(row)[word_of(member)] |= bit_of(member); }
  void add(std::uint32_t row, const member_mask& members) {
    for (auto word = members.first_word(); word < members.end_word(); ++word)
      words(row)[word] |= members.words()[word];
  }
  void clear(std::uint32_t row) {
    for (auto& word : words(row))
      word = 0;
  }

private:
  static std::size_t word_of(std::int32_t member) {
    return static_cast<std::size_t>(member) / member_mask::word_bits;
  }
  static std::uint64_t bit_of(std::int32_t member) {
    return std::uint64_t{1} << (static_cast<std::size_t>(member) % member_mask::word_bits);
  }
  std::span<std::uint64_t> words(std::uint32_t row) { return {bits_.data() + row * words_, words_}; }
  std::span<const std::uint64_t> words(std::uint32_t row) const {
    return {bits_.data() + row * words_, words_};
  }

  std::size_t words_; ///< words in one row
  std::vector<std::uint64_t> bits_;
};

} // namespace farandole
