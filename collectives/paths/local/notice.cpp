#include "collectives/paths/local/notice.hpp"

#include <limits>
#include <string>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max();
constexpr std::size_t first_row = notice_words(0);

bool add_rows(std::uint64_t rows, std::size_t row_bytes, std::size_t& bytes) {
  std::size_t more = 0;
  return !__builtin_mul_overflow(rows, row_bytes, &more) && !__builtin_add_overflow(bytes, more, &bytes) &&
         bytes <= most_bytes;
}

/// All notices, read as who gives what to whom.
struct dealing {
  operation what;
  std::span<const notice> all;
  std::size_t row_bytes;

  std::uint64_t rows(std::uint32_t from, std::uint32_t to) const { return all[from][first_row + to]; }
  std::uint64_t tensor(std::uint32_t of) const { return all[of][0]; }
  notice_place place(std::uint32_t of) const { return {all[of][1], all[of][2]}; }

  /// Bytes of a member's tensor that stand before those for another. False when they cannot be counted.
  bool before(std::uint32_t from, std::uint32_t to, std::size_t& bytes) const {
    bytes = 0;
    if (row_of(what).rows != row_use::dealt)
      return true;
    for (std::uint32_t lower = 0; lower < to; ++lower)
      if (!add_rows(rows(from, lower), row_bytes, bytes))
        return false;
    return true;
  }

  /// Whether all that comes to a member stands in its place, whose end can be counted. `at`: where, there,
  /// that of `giver` does.
  bool fits(std::uint32_t to, std::uint32_t giver, std::size_t& at) const {
    std::size_t total = 0;
    for (std::uint32_t from = 0; from < all.size(); ++from) {
      if (from == giver)
        at = total;
      if (!add_rows(rows(from, to), row_bytes, total))
        return false;
    }
    std::uint64_t end = 0;
    return total <= place(to).bytes && !__builtin_add_overflow(place(to).at, place(to).bytes, &end);
  }
};

/// What a member has for the places of the others. It follows from the notices alone, so giver and owner
/// agree on whose place is used.
std::vector<taking::gift> plan_gifts(const dealing& deal, std::uint32_t rank) {
  std::vector<taking::gift> gifts;
  const auto members = static_cast<std::uint32_t>(deal.all.size());
  for (std::uint32_t i = 1; i < members; ++i) {
    const auto to = (rank + i) % members;
    std::size_t at = 0, before = 0;
    const auto bytes = deal.rows(rank, to) * deal.row_bytes;
    if (bytes > 0 && deal.fits(to, rank, at) && deal.before(rank, to, before))
      gifts.push_back({to, deal.tensor(rank) + before, deal.place(to).at + at, bytes});
  }
  return gifts;
}

} // namespace

notice make_notice(const std::byte* tensor, const notice_place& place, std::span<const std::int64_t> rows) {
  notice words{reinterpret_cast<std::uintptr_t>(tensor), place.at, place.bytes};
  for (const auto each : rows)
    words.push_back(static_cast<std::uint64_t>(each));
  return words;
}

expected<taking> plan_taking(operation what, std::span<const notice> all, std::uint32_t rank,
                             std::size_t row_bytes) {
  const dealing deal{what, all, row_bytes};
  const auto members = static_cast<std::uint32_t>(all.size());
  taking plan;
  std::size_t all_rows = 0; // rows may have no bytes: they must be countable all the same
  plan.pieces.resize(members);
  for (std::uint32_t from = 0; from < members; ++from) {
    std::size_t before = 0;
    const auto at = plan.bytes;
    const auto rows = deal.rows(from, rank);
    if (!deal.before(from, rank, before) || !add_rows(rows, 1, all_rows) ||
        !add_rows(rows, row_bytes, plan.bytes))
      return error{error_kind::unknown, "local member " + std::to_string(from) + " offers " +
                                            std::to_string(rows) + " rows of " + std::to_string(row_bytes) +
                                            " bytes, which cannot be"};
    plan.rows.push_back(static_cast<std::int64_t>(rows));
    const auto turn = (from + members - rank - 1) % members;
    plan.pieces[turn] = {from, deal.tensor(from) + before, at, plan.bytes - at};
  }
  plan.placed = deal.place(rank).bytes > 0 && plan.bytes <= deal.place(rank).bytes;
  if (plan.placed)
    plan.pieces.erase(plan.pieces.begin(), plan.pieces.end() - 1); // its own comes last
  plan.gifts = plan_gifts(deal, rank);
  return plan;
}

} // namespace farandole
