// The requests that the leader has received and that are not yet complete. Each tensor name has a row, which
// collects the requests of the members. A row is complete when every member has asked or joined. Requests that
// equal the cached one are only counted, which is nearly always the case. Other requests are stored ("written")
// and compared when the row is complete.
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
#include "collectives/negotiation/withdrawal.hpp"
#include "collectives/negotiation/written_requests.hpp"
#include "collectives/relay/member_mask.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

class request_table {
public:
  using row_id = std::uint32_t;
  /// The state of a row after a request: it waits for other members, it is complete, or the member had asked before.
  enum class count : std::uint8_t { waiting, complete, repeated };

  /// `ranks`: the members' global ranks, by their position in the set ("member" in what follows).
  explicit request_table(std::vector<std::int32_t> ranks);

  const member_ranks& members() const { return members_; }

  // ---- rows. A row exists while a member waits in it or an id is tied to it.

  row_id open(std::string_view name);
  std::optional<row_id> find(std::string_view name) const;
  const std::string& name(row_id row) const { return contents_[row].name; }
  /// Ties an id to a row; 0 unties it, which ends the row if no member waits in it.
  void tie(row_id row, std::uint32_t id);
  std::uint32_t id(row_id row) const { return heads_[row].id; }
  /// Whether a member waits in the row.
  bool busy(row_id row) const { return heads_[row].opened != 0; }
  /// The time of the first request, if the row is busy.
  std::chrono::nanoseconds since(row_id row) const { return heads_[row].since; }
  /// The global rank that made the first request, if the row is busy.
  std::int32_t first_rank(row_id row) const { return members_.rank_of(heads_[row].first); }
  /// Removes all requests from the row. The row ends unless an id is tied to it.
  void clear(row_id row) {
    auto& head = heads_[row];
    asked_.clear(row);
    head.opened = 0;
    if (head.written || head.withdrawn || head.id == 0)
      clear_contents(row);
  }

  // ---- asking

  /// The member requests exactly the tensor that the row's id stands for.
  count add_known(row_id row, std::int32_t member, std::chrono::nanoseconds current_time) {
    auto& head = heads_[row];
    if (head.opened == 0)
      start(head, member, current_time);
    else if (asked_.has(row, member))
      return count::repeated;
    asked_.add(row, member);
    if (joined_.none() || !joined_.has(member))
      --head.missing;
    return head.missing == 0 ? count::complete : count::waiting;
  }
  /// The member sends a full request. `repeated`: it had asked before, and nothing changed.
  count add(row_id row, std::int32_t member, const request& asked, std::chrono::nanoseconds current_time);
  /// The same for many members, none of which may have asked before.
  count add_known(row_id row, const member_mask& members, std::chrono::nanoseconds current_time);
  count add(row_id row, const member_mask& members, const request& asked,
            std::chrono::nanoseconds current_time);
  /// The members that have asked, by row.
  const asked_members& asked() const { return asked_; }
  /// Removes the requests that were made by the row's id, because the id is about to be forgotten. Returns the ranks
  /// that had made them.
  std::vector<std::int32_t> take_out(row_id row);

  // ---- the contents of a row

  /// The full requests that are stored in the row; null if there are none.
  const written_requests* written(row_id row) const {
    return heads_[row].written ? &contents_[row].requests : nullptr;
  }
  /// Explains why the tensor of this complete row cannot run, if so (signature_check.hpp). `entry`: the signature
  /// that all members have requested, if the row stores no full requests.
  error disagreement(row_id row, const signature* entry = nullptr) const;

  // ---- withdrawing

  /// The tensor of this row fails, because the member of rank `culprit` withdraws it. Returns the ranks that have
  /// asked. The row stays until every member has asked once, so that later requests can be refused.
  std::vector<std::int32_t> withdraw(row_id row, std::int32_t culprit);
  /// Null if the row has not been withdrawn.
  const withdrawal* withdrawn(row_id row) const {
    return heads_[row].withdrawn ? &*contents_[row].withdrawn : nullptr;
  }
  withdrawal* withdrawn(row_id row) { return heads_[row].withdrawn ? &*contents_[row].withdrawn : nullptr; }

  // ---- joining

  /// Adds a joined member. Returns the rows that become complete by this, oldest first.
  std::vector<row_id> join(std::int32_t member);
  const joined_members& joined() const { return joined_; }
  /// All members have joined, and take part again.
  void leave_join() { joined_.clear(); }

  std::vector<stalled_tensor> stalled(std::chrono::nanoseconds current_time,
                                      std::chrono::nanoseconds limit) const;

private:
  // The fields that counting touches, kept small and together.
  struct head {
    std::uint64_t opened = 0; ///< order of the first request; 0: no member waits
    std::chrono::nanoseconds since{0};
    std::uint32_t missing = 0; ///< members that have neither asked nor joined
    std::uint32_t id = 0;
    std::int32_t first = 0; ///< the member that made the first request
    bool written = false;   ///< the story has requests
    bool withdrawn = false; ///< the story has a withdrawal
  };
  struct contents {
    std::string name;
    written_requests requests;
    std::optional<withdrawal> withdrawn;
  };

  void start(head& row, std::int32_t member, std::chrono::nanoseconds current_time) {
    row.opened = ++opened_;
    row.first = member;
    row.since = current_time;
    row.missing = static_cast<std::uint32_t>(members_.count() - joined_.count());
  }
  void write(row_id row, std::int32_t member, const request& asked);
  void clear_contents(row_id row);
  void end(row_id row);
  std::vector<std::int32_t> ranks_in(row_id row) const;

  member_ranks members_;
  std::vector<head> heads_;
  asked_members asked_;
  std::deque<contents> contents_; ///< names must not move: by_name_ refers to them
  std::unordered_map<std::string_view, row_id> by_name_;
  std::vector<row_id> free_;
  joined_members joined_;
  std::uint64_t opened_ = 0;
};

} // namespace farandole
