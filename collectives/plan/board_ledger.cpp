#include "collectives/plan/board_ledger.hpp"

#include "collectives/operation.hpp"

namespace farandole {

std::optional<std::int64_t> board_ledger::grant(const signature& what, std::size_t bytes,
                                                std::uint64_t uses) {
  // The first time may be the only one: names that are never used again would fill the area.
  constexpr std::uint64_t uses_wanted = 2;
  if (!options_.on || !options_.one_host || !options_.footprint || uses < uses_wanted ||
      !row_of(what.operation).on_board ||
      (row_of(what.operation).reduces && what.reduce_op == reduce_op::adasum) || bytes > options_.limit_bytes)
    return std::nullopt;
  const std::size_t footprint = options_.footprint(bytes);
  if (footprint > options_.area_bytes - used_)
    return std::nullopt;
  const auto cell = static_cast<std::int64_t>(used_);
  used_ += footprint;
  return cell;
}

} // namespace farandole
