// Who has asked for what. A row per name collects what the members sent; it is complete when every member has
// asked or joined. Members whose requests equal the cached one are only counted, which is what happens nearly
// always; the others are written down, to be compared when the row is complete.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/plan/group.hpp"
#include "collectives/plan/member_mask.hpp"
#include "collectives/plan/stall.hpp"
#include "messages/error.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

class tally {
public:
  using row_id = std::uint32_t;
  enum class count : std::uint8_t { waiting, complete, repeated };

  /// `ranks`: the members' global ranks, by their position in the set ("member" in what follows).
  explicit tally(std::vector<std::int32_t> ranks);

  std::int32_t members() const { return static_cast<std::int32_t>(ranks_.size()); }
  std::int32_t rank_of(std::int32_t member) const { return ranks_[static_cast<std::size_t>(member)]; }
  const std::vector<std::int32_t>& ranks() const { return ranks_; }
  /// Empty when that rank is not in the set.
  std::optional<std::int32_t> member_of(std::int32_t rank) const;

  // ---- rows. A row lives while somebody waits in it, or an id is tied to it.

  row_id open(std::string_view name);
  std::optional<row_id> find(std::string_view name) const;
  const std::string& name(row_id row) const { return stories_[row].name; }
  /// Ties an id to a row, or unties it (0).
  void tie(row_id row, std::uint32_t id);
  std::uint32_t id(row_id row) const { return heads_[row].id; }
  /// Whether somebody waits in the row.
  bool busy(row_id row) const { return heads_[row].opened != 0; }
  /// Since when, where it is so.
  std::chrono::nanoseconds since(row_id row) const { return heads_[row].since; }
  /// Takes all that was asked out of the row; the row ends unless an id is tied to it.
  void clear(row_id row) {
    auto& head = heads_[row];
    for (std::size_t word = 0; word < words_; ++word)
      bits(row)[word] = 0;
    head.opened = 0;
    if (head.written || head.withdrawn || head.id == 0)
      clear_story(row);
  }

  // ---- asking

  /// This member asks for just what the row's id stands for.
  count add_known(row_id row, std::int32_t member, std::chrono::nanoseconds now) {
    auto& head = heads_[row];
    if (head.opened == 0)
      start(head, now);
    else if (asked(row, member))
      return count::repeated;
    bits(row)[word_of(member)] |= bit_of(member);
    if (joined_ == 0 || !has_joined(member))
      --head.missing;
    return head.missing == 0 ? count::complete : count::waiting;
  }
  /// This member asks, in words. `repeated`: it already had, and nothing changed.
  count add(row_id row, std::int32_t member, const request& what, std::chrono::nanoseconds now);
  /// The same of many members, none of which has asked.
  count add_known(row_id row, const member_mask& who, std::chrono::nanoseconds now);
  count add(row_id row, const member_mask& who, const request& what, std::chrono::nanoseconds now);
  /// Whether any of them has asked.
  bool asked_any(row_id row, const member_mask& who) const;
  bool asked(row_id row, std::int32_t member) const {
    return (bits(row)[word_of(member)] & bit_of(member)) != 0;
  }
  /// Whether what `member` has asked for in this row is just this.
  bool same(row_id row, std::int32_t member, const request& what) const;
  /// The row's id is about to be forgotten: takes out what was asked by it, and returns the ranks that had
  /// asked so.
  std::vector<std::int32_t> take_out(row_id row);

  // ---- what a row says. Only for rows that were written down.

  bool written(row_id row) const { return heads_[row].written; }
  /// Of the member that asked first.
  const signature& reference(row_id row) const { return stories_[row].reference; }
  /// Whether any member wants no cell on the board for it.
  bool seatless(row_id row) const { return stories_[row].seatless; }
  /// First extents by member, where they are free.
  const std::vector<std::int64_t>& first_dims(row_id row) const { return stories_[row].first_dims; }
  /// The groups that were named for this row; several when members do not agree (0: in none).
  const std::vector<group_claim>& groups(row_id row) const { return stories_[row].groups; }
  /// Why this complete row cannot run, if so (agreement.hpp). `known`: what all have asked for, where the row
  /// was not written down.
  error disagreement(row_id row, const signature* known = nullptr) const;

  // ---- taking back

  /// The tensor of this row fails, because of `by`: returns the ranks that have asked. The row stays, to turn
  /// away those that have not asked yet, until every member has asked once.
  std::vector<std::int32_t> withdraw(row_id row, std::int32_t by);
  std::int32_t withdrawn_by(row_id row) const { return stories_[row].withdrawn_by; }
  bool withdrawn(row_id row) const { return heads_[row].withdrawn; }
  /// A member asks again while others have yet to be turned away: its request is kept until the row is
  /// cleared.
  void keep_early(row_id row, std::int32_t member, const request& what);
  std::vector<std::pair<std::int32_t, request>> take_early(row_id row);

  // ---- joining

  /// Returns the rows that became complete by it, oldest first.
  std::vector<row_id> join(std::int32_t member);
  bool has_joined(std::int32_t member) const { return (joined_bits_[word_of(member)] & bit_of(member)) != 0; }
  std::int32_t joined() const { return joined_; }
  /// All have joined: everybody takes part again.
  void leave_join();

  std::vector<stall> stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) const;

private:
  static constexpr std::size_t word_bits = 64;

  // What counting touches, kept small and together.
  struct head {
    std::uint64_t opened = 0; ///< order of the first request; 0: nobody waits
    std::chrono::nanoseconds since{0};
    std::uint32_t missing = 0; ///< members that have neither asked nor joined
    std::uint32_t id = 0;
    bool written = false; ///< there is a story
    bool withdrawn = false;
  };
  struct story {
    std::string name;
    std::int32_t withdrawn_by = -1;
    farandole::signature reference;
    std::vector<std::int64_t> first_dims;
    std::vector<std::pair<std::int32_t, farandole::signature>>
        others; ///< members that differ from the reference
    std::vector<group_claim> groups;
    bool seatless = false;
    std::vector<std::pair<std::int32_t, request>> early;
  };

  static std::size_t word_of(std::int32_t member) { return static_cast<std::size_t>(member) / word_bits; }
  static std::uint64_t bit_of(std::int32_t member) {
    return std::uint64_t{1} << (static_cast<std::size_t>(member) % word_bits);
  }
  void start(head& row, std::chrono::nanoseconds now) {
    row.opened = ++opened_;
    row.since = now;
    row.missing = static_cast<std::uint32_t>(members() - joined_);
  }
  void tell(row_id row, std::int32_t member, const request& what);
  void clear_story(row_id row);
  void end(row_id row);
  std::vector<std::int32_t> ranks_in(row_id row) const;
  signature signature_of(row_id row, std::int32_t member) const;
  std::uint64_t* bits(row_id row) { return asked_.data() + row * words_; }
  const std::uint64_t* bits(row_id row) const { return asked_.data() + row * words_; }

  std::vector<std::int32_t> ranks_;
  std::unordered_map<std::int32_t, std::int32_t> member_of_;
  std::size_t words_; ///< of a row's bits
  std::vector<head> heads_;
  std::vector<std::uint64_t> asked_; ///< bits by row and member
  std::deque<story> stories_;        ///< names stay where they are: by_name_ looks at them
  std::unordered_map<std::string_view, row_id> by_name_;
  std::vector<row_id> free_;
  std::vector<std::uint64_t> joined_bits_;
  std::int32_t joined_ = 0;
  std::uint64_t opened_ = 0;
};

} // namespace farandole
