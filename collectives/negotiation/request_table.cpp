#include "collectives/negotiation/request_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "collectives/negotiation/signature_check.hpp"

namespace farandole {

request_table::request_table(std::vector<std::int32_t> ranks)
    : members_(std::move(ranks)), asked_(static_cast<std::size_t>(members_.count())),
      joined_(static_cast<std::size_t>(members_.count())) {}

// ---- rows ---------------------------------------------------------------------------------------

request_table::row_id request_table::open(std::string_view name) {
  if (auto found = by_name_.find(name); found != by_name_.end())
    return found->second;
  row_id row;
  if (free_.empty()) {
    row = static_cast<row_id>(heads_.size());
    heads_.emplace_back();
    contents_.emplace_back();
    asked_.add_row();
  } else {
    row = free_.back();
    free_.pop_back();
  }
  contents_[row].name = name;
  by_name_.emplace(contents_[row].name, row);
  return row;
}

std::optional<request_table::row_id> request_table::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional{found->second};
}

void request_table::tie(row_id row, std::uint32_t id) {
  heads_[row].id = id;
  if (id == 0 && !busy(row))
    end(row);
}

void request_table::clear_contents(row_id row) {
  auto& head = heads_[row];
  auto& contents = contents_[row];
  head.written = head.withdrawn = false;
  contents.requests.clear();
  contents.withdrawn.reset();
  if (head.id == 0)
    end(row);
}

void request_table::end(row_id row) {
  by_name_.erase(contents_[row].name);
  free_.push_back(row);
}

// ---- asking -------------------------------------------------------------------------------------

request_table::count request_table::add(row_id row, std::int32_t member, const request& asked,
                                        std::chrono::nanoseconds current_time) {
  if (asked_.has(row, member))
    return count::repeated;
  write(row, member, asked);
  return add_known(row, member, current_time);
}

void request_table::write(row_id row, std::int32_t member, const request& asked) {
  assert(written(row) || !busy(row));
  heads_[row].written = true;
  contents_[row].requests.add(member, asked, static_cast<std::size_t>(members_.count()));
}

request_table::count request_table::add(row_id row, const member_mask& members, const request& asked,
                                        std::chrono::nanoseconds current_time) {
  const auto& requests = contents_[row].requests;
  bool first = true;
  members.for_each([&](std::size_t member) {
    // If the first request equals those that are stored, the requests of the other members add nothing, unless they are
    // absent: then each has to be known.
    if (first || requests.differ() || !requests.first_dims().empty() || asked.device != 0 || asked.absent)
      write(row, static_cast<std::int32_t>(member), asked);
    first = false;
  });
  return add_known(row, members, current_time);
}

request_table::count request_table::add_known(row_id row, const member_mask& members,
                                              std::chrono::nanoseconds current_time) {
  assert(!asked_.has_any(row, members));
  auto& head = heads_[row];
  if (head.opened == 0)
    start(head, static_cast<std::int32_t>(members.first()), current_time);
  asked_.add(row, members);
  const auto words = members.words();
  const auto joined = joined_.words();
  for (auto word = members.first_word(); word < members.end_word(); ++word)
    head.missing -= static_cast<std::uint32_t>(std::popcount(words[word] & ~joined[word]));
  return head.missing == 0 ? count::complete : count::waiting;
}

std::vector<std::int32_t> request_table::take_out(row_id row) {
  // The members in a withdrawn row have been answered already; the row only records that they have asked.
  if (!busy(row) || written(row) || withdrawn(row))
    return {};
  auto ranks = ranks_in(row);
  asked_.clear(row);
  heads_[row].opened = 0;
  return ranks;
}

// ---- the contents of a row ----------------------------------------------------------------------

error request_table::disagreement(row_id row, const signature* entry) const {
  const auto& requests = contents_[row].requests;
  assert(written(row) || entry);
  std::vector<std::int32_t> joined;
  std::vector<std::int32_t> compared;
  for (std::int32_t member = 0; member < members_.count(); ++member) {
    const bool asked = asked_.has(row, member);
    // If all members made the same request, one of them is enough.
    if (asked && (compared.empty() || requests.differ()) && (entry || !requests.has_no_rows(member)))
      compared.push_back(member);
    if (!asked && joined_.has(member))
      joined.push_back(members_.rank_of(member));
  }
  std::vector<signature> signatures;
  signatures.reserve(compared.size());
  std::vector<asked_by> asked;
  asked.reserve(compared.size());
  for (auto member : compared) {
    signatures.push_back(entry ? *entry : requests.signature_of(member));
    asked.push_back({members_.rank_of(member), &signatures.back()});
  }
  return farandole::disagreement(name(row), asked, joined);
}

// ---- withdrawing --------------------------------------------------------------------------------

std::vector<std::int32_t> request_table::withdraw(row_id row, std::int32_t culprit) {
  heads_[row].withdrawn = true;
  contents_[row].withdrawn.emplace(culprit);
  return ranks_in(row);
}

std::vector<std::int32_t> request_table::ranks_in(row_id row) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t member = 0; member < members_.count(); ++member)
    if (asked_.has(row, member))
      ranks.push_back(members_.rank_of(member));
  return ranks;
}

// ---- joining ------------------------------------------------------------------------------------

std::vector<request_table::row_id> request_table::join(std::int32_t member) {
  std::vector<row_id> complete;
  if (!joined_.add(member))
    return complete;
  for (row_id row = 0; row < heads_.size(); ++row)
    if (busy(row) && !asked_.has(row, member) && --heads_[row].missing == 0)
      complete.push_back(row);
  std::sort(complete.begin(), complete.end(),
            [&](row_id a, row_id b) { return heads_[a].opened < heads_[b].opened; });
  return complete;
}

std::vector<stalled_tensor> request_table::stalled(std::chrono::nanoseconds current_time,
                                                   std::chrono::nanoseconds limit) const {
  std::vector<row_id> late;
  for (row_id row = 0; row < heads_.size(); ++row)
    if (busy(row) && !withdrawn(row) && current_time - heads_[row].since > limit)
      late.push_back(row);
  std::sort(late.begin(), late.end(),
            [&](row_id a, row_id b) { return heads_[a].opened < heads_[b].opened; });
  std::vector<stalled_tensor> result;
  for (auto row : late) {
    stalled_tensor delay{name(row), current_time - heads_[row].since, {}};
    for (std::int32_t member = 0; member < members_.count(); ++member)
      if (!asked_.has(row, member) && !joined_.has(member))
        delay.missing.push_back(members_.rank_of(member));
    std::sort(delay.missing.begin(), delay.missing.end());
    result.push_back(std::move(delay));
  }
  return result;
}

} // namespace farandole
