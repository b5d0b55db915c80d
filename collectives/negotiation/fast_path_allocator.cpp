#include "collectives/negotiation/fast_path_allocator.hpp"

#include "collectives/operation.hpp"

namespace farandole {

/// The bytes that a member publishes in the cell of such a tensor; empty if the tensor cannot have a cell.
std::optional<std::size_t> fast_path_allocator::shown(const signature& signature, std::size_t bytes) const {
  switch (use_of_fast_path(signature, bytes, options_.limit_bytes)) {
  case fast_path_use::bytes:
    return bytes;
  case fast_path_use::collective:
    return options_.collective_bytes > 0 ? std::optional(options_.collective_bytes) : std::nullopt;
  case fast_path_use::none:
    break;
  }
  return std::nullopt;
}

std::optional<fast_path_grant> fast_path_allocator::grant(const signature& signature, std::size_t bytes,
                                                          std::uint64_t uses) {
  // The first use may be the only one: names that are never used again would fill the area.
  constexpr std::uint64_t uses_wanted = 2;
  if (!options_.on || !options_.one_host || !options_.footprint || uses < uses_wanted)
    return std::nullopt;
  const auto cell = shown(signature, bytes);
  if (!cell)
    return std::nullopt;
  const std::size_t footprint = options_.footprint(*cell);
  if (footprint > options_.area_bytes - used_)
    return std::nullopt;
  const fast_path_grant granted{static_cast<std::int64_t>(used_), *cell};
  used_ += footprint;
  return granted;
}

} // namespace farandole
