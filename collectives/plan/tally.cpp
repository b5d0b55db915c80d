#include "collectives/plan/tally.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "collectives/operation.hpp"
#include "collectives/plan/agreement.hpp"

namespace farandole {

namespace {

bool free_first(const signature& what) {
  return row_of(what.operation).first_dim_free() && !what.shape.empty();
}

// Whether they are equal but for a first extent that may differ.
bool alike(const signature& reference, const signature& other) {
  if (!free_first(reference) || other.shape.empty())
    return reference == other;
  if (other.shape[0] == reference.shape[0])
    return reference == other;
  auto as_reference = other;
  as_reference.shape[0] = reference.shape[0];
  return reference == as_reference;
}

} // namespace

tally::tally(std::vector<std::int32_t> ranks)
    : ranks_(std::move(ranks)), words_((ranks_.size() + word_bits - 1) / word_bits), joined_bits_(words_) {
  assert(!ranks_.empty());
  for (std::int32_t member = 0; member < members(); ++member)
    member_of_.emplace(rank_of(member), member);
}

std::optional<std::int32_t> tally::member_of(std::int32_t rank) const {
  auto place = member_of_.find(rank);
  return place == member_of_.end() ? std::nullopt : std::optional{place->second};
}

// ---- rows ---------------------------------------------------------------------------------------

tally::row_id tally::open(std::string_view name) {
  if (auto place = by_name_.find(name); place != by_name_.end())
    return place->second;
  row_id row;
  if (free_.empty()) {
    row = static_cast<row_id>(heads_.size());
    heads_.emplace_back();
    stories_.emplace_back();
    asked_.resize(asked_.size() + words_);
  } else {
    row = free_.back();
    free_.pop_back();
  }
  stories_[row].name = name;
  by_name_.emplace(stories_[row].name, row);
  return row;
}

std::optional<tally::row_id> tally::find(std::string_view name) const {
  auto place = by_name_.find(name);
  return place == by_name_.end() ? std::nullopt : std::optional{place->second};
}

void tally::tie(row_id row, std::uint32_t id) {
  heads_[row].id = id;
  if (id == 0 && !busy(row))
    end(row);
}

void tally::clear_story(row_id row) {
  auto& head = heads_[row];
  auto& story = stories_[row];
  head.written = head.withdrawn = false;
  story.first_dims.clear();
  story.others.clear();
  story.groups.clear();
  story.seatless = false;
  story.early.clear();
  if (head.id == 0)
    end(row);
}

void tally::end(row_id row) {
  by_name_.erase(stories_[row].name);
  free_.push_back(row);
}

// ---- asking -------------------------------------------------------------------------------------

tally::count tally::add(row_id row, std::int32_t member, const request& what, std::chrono::nanoseconds now) {
  if (asked(row, member))
    return count::repeated;
  tell(row, member, what);
  return add_known(row, member, now);
}

// Writes down what a member asks for.
void tally::tell(row_id row, std::int32_t member, const request& what) {
  auto& story = stories_[row];
  if (!written(row)) {
    assert(!busy(row));
    heads_[row].written = true;
    story.reference = what.signature;
    if (free_first(what.signature))
      story.first_dims.assign(ranks_.size(), 0);
  } else if (!alike(story.reference, what.signature)) {
    story.others.emplace_back(member, what.signature);
  }
  if (!story.first_dims.empty() && !what.signature.shape.empty())
    story.first_dims[static_cast<std::size_t>(member)] = what.signature.shape[0];
  const group_claim claim{what.group, what.group_size};
  if (std::find(story.groups.begin(), story.groups.end(), claim) == story.groups.end())
    story.groups.push_back(claim);
  story.seatless |= what.seatless;
}

tally::count tally::add(row_id row, const member_mask& who, const request& what,
                        std::chrono::nanoseconds now) {
  bool first = true;
  who.each([&](std::size_t member) {
    // Once it is known to be like the others, there is nothing to add for the rest.
    if (first || !stories_[row].others.empty() || !stories_[row].first_dims.empty())
      tell(row, static_cast<std::int32_t>(member), what);
    first = false;
  });
  return add_known(row, who, now);
}

tally::count tally::add_known(row_id row, const member_mask& who, std::chrono::nanoseconds now) {
  assert(!asked_any(row, who));
  auto& head = heads_[row];
  if (head.opened == 0)
    start(head, now);
  const auto words = who.words();
  for (auto word = who.first_word(); word < who.end_word(); ++word) {
    bits(row)[word] |= words[word];
    head.missing -= static_cast<std::uint32_t>(std::popcount(words[word] & ~joined_bits_[word]));
  }
  return head.missing == 0 ? count::complete : count::waiting;
}

bool tally::asked_any(row_id row, const member_mask& who) const {
  const auto words = who.words();
  std::uint64_t common = 0;
  for (auto word = who.first_word(); word < who.end_word(); ++word)
    common |= bits(row)[word] & words[word];
  return common != 0;
}

bool tally::same(row_id row, std::int32_t member, const request& what) const {
  return signature_of(row, member) == what.signature;
}

std::vector<std::int32_t> tally::take_out(row_id row) {
  // Who asked for what was taken back has its answer; it only counts as one who has asked.
  if (!busy(row) || written(row) || withdrawn(row))
    return {};
  auto ranks = ranks_in(row);
  std::fill_n(bits(row), words_, 0);
  heads_[row].opened = 0;
  return ranks;
}

// ---- what a row says ----------------------------------------------------------------------------

signature tally::signature_of(row_id row, std::int32_t member) const {
  const auto& story = stories_[row];
  for (const auto& [other, signature] : story.others)
    if (other == member)
      return signature;
  auto result = story.reference;
  if (!story.first_dims.empty())
    result.shape[0] = story.first_dims[static_cast<std::size_t>(member)];
  return result;
}

error tally::disagreement(row_id row, const signature* known) const {
  const auto& story = stories_[row];
  assert(written(row) || known);
  std::vector<std::int32_t> joined;
  std::vector<std::int32_t> who;
  for (std::int32_t member = 0; member < members(); ++member) {
    // One stands for all who asked for the same.
    if (asked(row, member) && (who.empty() || !story.others.empty()))
      who.push_back(member);
    if (joined_ > 0 && has_joined(member) && !asked(row, member))
      joined.push_back(rank_of(member));
  }
  std::vector<signature> signatures;
  signatures.reserve(who.size());
  std::vector<asked_by> asked;
  asked.reserve(who.size());
  for (auto member : who) {
    signatures.push_back(known ? *known : signature_of(row, member));
    asked.push_back({rank_of(member), &signatures.back()});
  }
  return farandole::disagreement(story.name, asked, joined);
}

// ---- taking back --------------------------------------------------------------------------------

std::vector<std::int32_t> tally::withdraw(row_id row, std::int32_t by) {
  heads_[row].withdrawn = true;
  stories_[row].withdrawn_by = by;
  return ranks_in(row);
}

std::vector<std::int32_t> tally::ranks_in(row_id row) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t member = 0; member < members(); ++member)
    if (asked(row, member))
      ranks.push_back(rank_of(member));
  return ranks;
}

void tally::keep_early(row_id row, std::int32_t member, const request& what) {
  auto& early = stories_[row].early;
  auto same_member = [&](const auto& kept) { return kept.first == member; };
  if (std::none_of(early.begin(), early.end(), same_member))
    early.emplace_back(member, what);
}

std::vector<std::pair<std::int32_t, request>> tally::take_early(row_id row) {
  return std::exchange(stories_[row].early, {});
}

// ---- joining ------------------------------------------------------------------------------------

std::vector<tally::row_id> tally::join(std::int32_t member) {
  std::vector<row_id> complete;
  if (has_joined(member))
    return complete;
  joined_bits_[word_of(member)] |= bit_of(member);
  ++joined_;
  for (row_id row = 0; row < heads_.size(); ++row)
    if (busy(row) && !asked(row, member) && --heads_[row].missing == 0)
      complete.push_back(row);
  std::sort(complete.begin(), complete.end(),
            [&](row_id a, row_id b) { return heads_[a].opened < heads_[b].opened; });
  return complete;
}

void tally::leave_join() {
  joined_ = 0;
  std::fill(joined_bits_.begin(), joined_bits_.end(), 0);
}

std::vector<stall> tally::stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) const {
  std::vector<row_id> late;
  for (row_id row = 0; row < heads_.size(); ++row)
    if (busy(row) && !withdrawn(row) && now - heads_[row].since > limit)
      late.push_back(row);
  std::sort(late.begin(), late.end(),
            [&](row_id a, row_id b) { return heads_[a].opened < heads_[b].opened; });
  std::vector<stall> result;
  for (auto row : late) {
    stall one{name(row), now - heads_[row].since, {}};
    for (std::int32_t member = 0; member < members(); ++member)
      if (!asked(row, member) && !has_joined(member))
        one.missing.push_back(rank_of(member));
    std::sort(one.missing.begin(), one.missing.end());
    result.push_back(std::move(one));
  }
  return result;
}

} // namespace farandole
