// Who has asked for what. A row per name collects what the members sent; it is complete when every member has
// asked or joined. Members whose requests equal the cached one are only counted, which is what happens nearly
// always; the others are written down, to be compared when the row is complete.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/negotiation/asked_members.hpp"
#include "collectives/negotiation/joined_members.hpp"
#include "collectives/negotiation/member_ranks.hpp"
#include "collectives/negotiation/stall.hpp"
#include "collectives/negotiation/withdrawal.hpp"
#include "collectives/negotiation/written_requests.hpp"
#include "collectives/relay/member_mask.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class request_table {
public:
  using row_id = std::uint32_t;
  enum class count : std::uint8_t { waiting, complete, repeated };

  /// `ranks`: the members' global ranks, by their position in the set ("member" in what follows).
  explicit request_table(std::vector<std::int32_t> ranks);

  const member_ranks& members() const { return members_; }

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
    asked_.clear(row);
    head.opened = 0;
    if (head.written || head.withdrawn || head.id == 0)
      clear_story(row);
  }

  // ---- asking

  /// This member asks for just what the row's id stands for.
  count add_known(row_id row, std::int32_t member, std::chrono::nanoseconds current_time) {
    auto& head = heads_[row];
    if (head.opened == 0)
      start(head, current_time);
    else if (asked_.has(row, member))
      return count::repeated;
    asked_.add(row, member);
    if (joined_.none() || !joined_.has(member))
      --head.missing;
    return head.missing == 0 ? count::complete : count::waiting;
  }
  /// This member asks, in words. `repeated`: it already had, and nothing changed.
  count add(row_id row, std::int32_t member, const request& asked, std::chrono::nanoseconds current_time);
  /// The same of many members, none of which has asked.
  count add_known(row_id row, const member_mask& members, std::chrono::nanoseconds current_time);
  count add(row_id row, const member_mask& members, const request& asked,
            std::chrono::nanoseconds current_time);
  /// By row.
  const asked_members& asked() const { return asked_; }
  /// The row's id is about to be forgotten: takes out what was asked by it, and returns the ranks that had
  /// asked so.
  std::vector<std::int32_t> take_out(row_id row);

  // ---- what a row says

  /// What was asked in words; null: nothing was.
  const written_requests* written(row_id row) const {
    return heads_[row].written ? &stories_[row].requests : nullptr;
  }
  /// Why this complete row cannot run, if so (agreement.hpp). `known`: what all have asked for, where the row
  /// was not written down.
  error disagreement(row_id row, const signature* entry = nullptr) const;

  // ---- taking back

  /// The tensor of this row fails, because of the member of rank `culprit`: returns the ranks that have
  /// asked. The row stays, to turn away those that have not asked yet, until every member has asked once.
  std::vector<std::int32_t> withdraw(row_id row, std::int32_t culprit);
  /// Null: the row has not been withdrawn.
  const withdrawal* withdrawn(row_id row) const {
    return heads_[row].withdrawn ? &*stories_[row].withdrawn : nullptr;
  }
  withdrawal* withdrawn(row_id row) { return heads_[row].withdrawn ? &*stories_[row].withdrawn : nullptr; }

  // ---- joining

  /// Returns the rows that became complete by it, oldest first.
  std::vector<row_id> join(std::int32_t member);
  const joined_members& joined() const { return joined_; }
  /// All have joined: everybody takes part again.
  void leave_join() { joined_.clear(); }

  std::vector<stall> stalled(std::chrono::nanoseconds current_time, std::chrono::nanoseconds limit) const;

private:
  // What counting touches, kept small and together.
  struct head {
    std::uint64_t opened = 0; ///< order of the first request; 0: nobody waits
    std::chrono::nanoseconds since{0};
    std::uint32_t missing = 0; ///< members that have neither asked nor joined
    std::uint32_t id = 0;
    bool written = false;   ///< the story has requests
    bool withdrawn = false; ///< the story has a withdrawal
  };
  struct story {
    std::string name;
    written_requests requests;
    std::optional<withdrawal> withdrawn;
  };

  void start(head& row, std::chrono::nanoseconds current_time) {
    row.opened = ++opened_;
    row.since = current_time;
    row.missing = static_cast<std::uint32_t>(members_.count() - joined_.count());
  }
  void write(row_id row, std::int32_t member, const request& asked);
  void clear_story(row_id row);
  void end(row_id row);
  std::vector<std::int32_t> ranks_in(row_id row) const;

  member_ranks members_;
  std::vector<head> heads_;
  asked_members asked_;
  std::deque<story> stories_; ///< names stay where they are: by_name_ looks at them
  std::unordered_map<std::string_view, row_id> by_name_;
  std::vector<row_id> free_;
  joined_members joined_;
  std::uint64_t opened_ = 0;
};

} // namespace farandole
