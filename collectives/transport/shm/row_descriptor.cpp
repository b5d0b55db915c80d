#include "collectives/transport/shm/row_descriptor.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max();

/// Computes from all row descriptors how many bytes each member sends to each other.
struct dealing {
  operation op;
  std::span<const row_descriptor> all;
  std::size_t row_bytes;

  std::uint32_t members() const { return static_cast<std::uint32_t>(all.size()); }

  /// Number of bytes from `from` to `to`. Nothing if the number of rows or bytes exceeds most_bytes.
  std::optional<std::size_t> bytes(std::uint32_t from, std::uint32_t to) const {
    std::size_t product = 0;
    if (__builtin_mul_overflow(all[from].rows_for(to), row_bytes, &product) || product > most_bytes ||
        all[from].rows_for(to) > most_bytes)
      return std::nullopt;
    return product;
  }

  /// Offset in the tensor of `from` of the bytes for `to`. Call it only after check() has succeeded.
  std::size_t before(std::uint32_t from, std::uint32_t to) const {
    std::size_t sum = 0;
    if (row_of(op).rows == row_use::dealt)
      for (std::uint32_t lower = 0; lower < to; ++lower)
        sum += *bytes(from, lower);
    return sum;
  }
};

error refusal(const dealing& deal, std::uint32_t from, std::uint32_t to) {
  return {error_kind::unknown, "local member " + std::to_string(from) + " offers " +
                                   std::to_string(deal.all[from].rows_for(to)) + " rows of " +
                                   std::to_string(deal.row_bytes) + " bytes, which cannot be"};
}

/// Fails if a sum that the functions below compute would overflow: the bytes that each member receives or
/// sends, and the rows that each member receives.
error check(const dealing& deal) {
  for (std::uint32_t member = 0; member < deal.members(); ++member) {
    std::size_t comes = 0, goes = 0, rows = 0; // a row may have zero bytes, so rows are checked separately
    for (std::uint32_t other = 0; other < deal.members(); ++other) {
      const auto to = deal.bytes(other, member), from = deal.bytes(member, other);
      if (!to || __builtin_add_overflow(comes, *to, &comes) || comes > most_bytes ||
          __builtin_add_overflow(rows, deal.all[other].rows_for(member), &rows) || rows > most_bytes)
        return refusal(deal, other, member);
      if (!from || __builtin_add_overflow(goes, *from, &goes) || goes > most_bytes)
        return refusal(deal, member, other);
    }
  }
  return {};
}

std::size_t all_for(const dealing& deal, std::uint32_t member) {
  std::size_t sum = 0;
  for (std::uint32_t from = 0; from < deal.members(); ++from)
    sum += *deal.bytes(from, member);
  return sum;
}

/// Depends only on the row descriptors, so all members get the same answer.
bool all_placed(const dealing& deal) {
  for (std::uint32_t member = 0; member < deal.members(); ++member) {
    const auto destination = deal.all[member].destination();
    std::uint64_t end = 0;
    if (destination.at == row_destination::no_heap || all_for(deal, member) > destination.bytes ||
        __builtin_add_overflow(destination.at, destination.bytes, &end))
      return false;
  }
  return true;
}

std::vector<row_plan::peer_write> peer_writes_of(const dealing& deal, std::uint32_t rank) {
  std::vector<row_plan::peer_write> peer_writes;
  for (std::uint32_t i = 1; i <= deal.members(); ++i) {
    const auto to = (rank + i) % deal.members();
    std::size_t at = 0;
    for (std::uint32_t lower = 0; lower < rank; ++lower)
      at += *deal.bytes(lower, to);
    if (const auto bytes = *deal.bytes(rank, to); bytes > 0)
      peer_writes.push_back({to, deal.before(rank, to), deal.all[to].destination().at + at, bytes});
  }
  return peer_writes;
}

} // namespace

row_descriptor::row_descriptor(std::uint64_t staged_at, const row_destination& destination,
                               std::span<const std::int64_t> rows, std::size_t members)
    : row_descriptor(members) {
  words_[0] = staged_at;
  words_[1] = destination.at;
  words_[2] = destination.bytes;
  std::transform(rows.begin(), rows.end(), words_.begin() + 3,
                 [](std::int64_t count) { return static_cast<std::uint64_t>(count); });
}

expected<row_plan> plan_rows(operation op, std::span<const row_descriptor> all, std::uint32_t rank,
                             std::size_t row_bytes) {
  const dealing deal{op, all, row_bytes};
  if (auto problem = check(deal))
    return problem;
  row_plan plan;
  for (std::uint32_t other = 0; other < deal.members(); ++other) {
    plan.rows.push_back(static_cast<std::int64_t>(all[other].rows_for(rank)));
    plan.received.push_back(*deal.bytes(other, rank));
    plan.sent.push_back(*deal.bytes(rank, other));
    plan.bytes += plan.received.back();
    for (std::uint32_t to = 0; to < deal.members(); ++to)
      plan.longest = std::max(plan.longest, *deal.bytes(other, to));
  }
  plan.placed = all_placed(deal);
  if (plan.placed)
    plan.peer_writes = peer_writes_of(deal, rank);
  return plan;
}

} // namespace farandole
