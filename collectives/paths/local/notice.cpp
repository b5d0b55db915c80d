#include "collectives/paths/local/notice.hpp"

#include <limits>
#include <string>

namespace farandole {

namespace {

constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max();

bool add_rows(std::uint64_t rows, std::size_t row_bytes, std::size_t& bytes) {
  std::size_t more = 0;
  return !__builtin_mul_overflow(rows, row_bytes, &more) && !__builtin_add_overflow(bytes, more, &bytes) &&
         bytes <= most_bytes;
}

} // namespace

std::vector<std::uint64_t> make_notice(const std::byte* tensor, std::span<const std::int64_t> rows) {
  std::vector<std::uint64_t> words{reinterpret_cast<std::uintptr_t>(tensor)};
  for (const auto each : rows)
    words.push_back(static_cast<std::uint64_t>(each));
  return words;
}

expected<taking> plan_taking(operation what, std::span<const notice_view> all, std::uint32_t rank,
                             std::size_t row_bytes) {
  taking plan;
  plan.pieces.resize(all.size());
  for (std::uint32_t member = 0; member < all.size(); ++member) {
    const auto& told = all[member];
    std::size_t before = 0; // bytes of that member's tensor that are for those of lower rank
    const auto dealt = what == operation::alltoall ? told.subspan(1, rank) : notice_view();
    bool sound = true;
    for (const auto rows : dealt)
      sound = sound && add_rows(rows, row_bytes, before);
    const auto at = plan.bytes;
    const auto rows = told[1 + rank];
    if (!sound || !add_rows(rows, row_bytes, plan.bytes))
      return error{error_kind::unknown, "local member " + std::to_string(member) + " offers " +
                                            std::to_string(rows) + " rows of " + std::to_string(row_bytes) +
                                            " bytes, which cannot be"};
    plan.rows.push_back(static_cast<std::int64_t>(rows));
    const auto place = (member + all.size() - rank - 1) % all.size();
    plan.pieces[place] = {member, told[0] + before, at, plan.bytes - at};
  }
  return plan;
}

} // namespace farandole
