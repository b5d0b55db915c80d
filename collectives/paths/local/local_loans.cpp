// The operations of the local path that only copy, where they are large: every member tells its neighbours,
// in a slot, where the bytes stand that it has for them; they copy them straight out of its memory, and it
// gives nothing back before they have. One step a bundle, and no window to go through.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/operation.hpp"
#include "collectives/paths/bulk_copy.hpp"
#include "collectives/paths/local/checked_words.hpp"
#include "collectives/paths/local/loan_plan.hpp"
#include "collectives/paths/local/local.hpp"
#include "collectives/paths/local/local_job.hpp"

namespace farandole {

namespace {

/// After so many bytes a member looks whether it should give up, or move.
constexpr std::size_t look_bytes = std::size_t{1} << 20;
/// The first stretches are short: who waits for this core waits for them.
constexpr std::size_t first_look_bytes = std::size_t{128} << 10;

/// Nothing is lent any more when this goes, however the run has ended.
class lending {
public:
  lending(lender& who, std::uint64_t loan) : who_(who) { who_.lend(loan); }
  ~lending() { who_.withdraw(); }
  lending(const lending&) = delete;
  lending& operator=(const lending&) = delete;

private:
  lender& who_;
};

/// What stands in a slot while its member lends: whether its memory can be read, then the addresses.
constexpr std::size_t words_of_loan(std::size_t entries) {
  return 1 + entries;
}

/// Said to all before anything moves, for all must go the same way.
bool can_lend(const loan_plan& plan) {
  return std::all_of(plan.lends.begin(), plan.lends.end(), [](const auto& each) {
    return can_be_lent({each.from, each.bytes});
  });
}

/// What members show each other when they meet.
struct introduction {
  lender_card card;
  std::int64_t arena = -1; ///< a descriptor of that process; -1: it has none
  std::uint64_t arena_bytes = 0;
};
using introduction_words = std::array<std::uint64_t, 6>;
static_assert(std::has_unique_object_representations_v<introduction>);

introduction introduce(lending_circle& circle) {
  introduction own{circle.own.card()};
  auto room = arena::create(arena::usual_bytes());
  if (room) {
    circle.own_arena = std::move(*room);
    own.arena = circle.own_arena->shared_descriptor();
    own.arena_bytes = circle.own_arena->size();
  }
  return own;
}

/// What a member can do with the others' memory, of all of them.
constexpr std::uint64_t reads = 1, writes = 2;

std::optional<arena_view> enter(const borrower& other, const introduction& shown) {
  const auto room = shown.arena >= 0 ? other.fetch(static_cast<int>(shown.arena)) : descriptor();
  if (!room)
    return std::nullopt;
  auto view = arena_view::adopt(room, shown.arena_bytes);
  return view ? std::optional(std::move(*view)) : std::nullopt;
}

std::uint64_t look_around(lending_circle& circle, std::span<const introduction> all, std::uint32_t rank) {
  std::uint64_t reaches = reads | writes;
  for (std::uint32_t member = 0; member < all.size(); ++member) {
    const auto& other = circle.others.emplace_back(all[member].card);
    if (member != rank && !other.reaches())
      reaches = 0;
    if ((reaches & writes) == 0)
      continue;
    if (auto view = enter(other, all[member]))
      circle.arenas.push_back(std::move(*view));
    else
      reaches &= ~writes;
  }
  return reaches;
}

} // namespace

bool local_path::copy_straight(job& now) {
  const std::size_t room = now.chunk_bytes - checked_bytes(words_of_loan(0));
  if (!worth_lending(now.bundle, members_, single_copy_bytes_, room) || !meet(now) || !circle_->all_reach_all)
    return false;
  const bool done = borrow_and_lend(now);
  now.first = step_;
  return done;
}

expected<std::shared_ptr<const lending_circle>> local_path::meet(const limits& until) {
  if (single_copy_bytes_ == 0)
    return std::shared_ptr<const lending_circle>();
  work nothing;
  nothing.operation = operation::barrier;
  const tensor_stream empty;
  job now{nothing, until, empty, step_, slot_bytes()};
  if (!meet(now)) {
    broken_ = now.problem;
    return now.problem;
  }
  return std::shared_ptr<const lending_circle>(circle_);
}

/// Once in the life of the path: do all members reach the memory of all, to read, and the arenas, to write?
/// One that does not speaks for all.
bool local_path::meet(job& now) {
  if (circle_)
    return true;
  auto circle = std::make_shared<lending_circle>();
  const std::uint64_t step = step_;
  step_ += 2;
  now.first = step_;
  const auto own = introduce(*circle);
  if (!show_words(now, std::bit_cast<introduction_words>(own), step) ||
      !await_all(now, &member_counters::packed, step + 1))
    return false;
  std::vector<introduction> all(members_);
  for (std::uint32_t member = 0; member < members_; ++member) {
    introduction_words words;
    if (!read_words(now, member, words, step))
      return false;
    all[member] = std::bit_cast<introduction>(words);
  }
  auto reaches = look_around(*circle, all, rank_);
  publish(&member_counters::released, step + 1);
  if (!show_words(now, {&reaches, 1}, step + 1) || !await_all(now, &member_counters::packed, step + 2))
    return false;
  for (std::uint32_t member = 0; member < members_; ++member) {
    std::uint64_t theirs = 0;
    if (!read_words(now, member, {&theirs, 1}, step + 1))
      return false;
    reaches &= theirs;
  }
  publish(&member_counters::released, step + 2);
  circle->all_reach_all = (reaches & reads) != 0;
  if ((reaches & writes) == 0) {
    circle->own_arena.reset();
    circle->arenas.clear();
  }
  circle_ = std::move(circle);
  return true;
}

/// When a member has memory that it cannot lend, all know it alike, and the window takes the bundle.
bool local_path::borrow_and_lend(job& now) {
  const std::uint64_t step = step_++;
  observe(local_phase::pack, step);
  if (!await_slot(now, step))
    return false;
  const loan_plan plan = plan_loans(now.bundle, rank_, members_);
  const bool can = can_lend(plan);
  const lending until_we_leave(circle_->own, step + 1);
  std::vector<std::uint64_t> own{can ? 1u : 0u};
  for (const auto& each : plan.lends)
    own.push_back(reinterpret_cast<std::uintptr_t>(each.from));
  write_checked(own_slot(step, checked_bytes(own.size())), own, {rank_, 0, step});
  publish(&member_counters::packed, step + 1);
  if (can)
    keep_own(plan); // while the others come
  if (!await_all(now, &member_counters::packed, step + 1))
    return false;
  bool all_can = can;
  std::vector<std::vector<std::uint64_t>> lent(members_, std::vector<std::uint64_t>(own.size()));
  for (std::uint32_t member = 0; member < members_; ++member) {
    if (member != rank_ && !read_words(now, member, lent[member], step))
      return false;
    all_can = all_can && (member == rank_ || lent[member][0] != 0);
  }
  observe(local_phase::unpack, step);
  if (all_can && !take_lent(now, plan, lent, step))
    return false;
  publish(&member_counters::released, step + 1);
  observe(local_phase::lend, step);
  return all_can && await_all(now, &member_counters::released, step + 1);
}

bool local_path::show_words(job& now, std::span<const std::uint64_t> words, std::uint64_t step) {
  std::vector<std::uint64_t> checked(words.size() + 1);
  const auto bytes = std::as_writable_bytes(std::span(checked));
  write_checked(bytes.data(), words, {rank_, 0, step});
  return show(now, bytes, step);
}

bool local_path::read_words(job& now, std::uint32_t member, std::span<std::uint64_t> words,
                            std::uint64_t step) const {
  return read_checked(slot(member, step), words, {member, 0, step}) || damaged(now, member, "descriptor");
}

void local_path::keep_own(const loan_plan& plan) {
  for (const auto& each : plan.keeps)
    for (std::size_t at = 0, next = 0; at < each.bytes; at += next) {
      room_.look();
      next = std::min(at < look_bytes ? first_look_bytes : look_bytes, each.bytes - at);
      bulk_copy(each.to + at, each.from + at, next);
    }
}

bool local_path::take_lent(job& now, const loan_plan& plan, std::span<const std::vector<std::uint64_t>> lent,
                           std::uint64_t step) {
  for (std::size_t i = 0; i < plan.takes.size(); ++i) {
    const auto& each = plan.takes[i];
    if (!take_lent(now, each.member, lent[each.member][words_of_loan(each.index)], {each.to, each.bytes},
                   step))
      return false;
    // Before anything of it is believed.
    const bool last = i + 1 == plan.takes.size() || plan.takes[i + 1].member != each.member;
    if (last && !circle_->others[each.member].holds(step + 1))
      return gave_up(now);
  }
  return true;
}

bool local_path::take_lent(job& now, std::uint32_t member, std::uint64_t from, std::span<std::byte> to,
                           std::uint64_t step) {
  while (!to.empty()) {
    if (now.until.abort.raised())
      return gave_up(now);
    if (std::chrono::steady_clock::now() >= now.until.deadline)
      return too_late(now, member);
    const auto next = to.first(std::min(look_bytes, to.size()));
    if (const int why = circle_->others[member].copy(from, next)) {
      // Who has died, or given up and its memory back, is not read any more.
      if (!circle_->others[member].holds(step + 1))
        return gave_up(now);
      now.problem = {error_kind::unknown, doing(now) + "could not read the memory of local member " +
                                              std::to_string(member) + ": " + std::strerror(why)};
      return false;
    }
    from += next.size();
    to = to.subspan(next.size());
  }
  return true;
}

} // namespace farandole
