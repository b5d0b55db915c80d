#include "actors/submission/nvtx_ranges.hpp"

#include <cctype>

#include "collectives/phase_names.hpp"

namespace farandole {

namespace {

/// "HorovodAllreduce", "HorovodGroupedAllreduce".
std::string call_name(const operation_row& row, bool grouped) {
  std::string name(row.name);
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return std::string("Horovod") + (grouped && row.fusible ? "Grouped" : "") + name;
}

} // namespace

nvtx_call::nvtx_call(std::shared_ptr<const nvtx_ranges> ranges, const std::string& name, std::uint64_t bytes)
    : ranges_(std::move(ranges)), range_(ranges_->calls_, name, bytes) {}

std::shared_ptr<const nvtx_ranges> nvtx_ranges::open() {
  std::shared_ptr<const nvtx_ranges> ranges(new nvtx_ranges);
  const bool has_listener = ranges->calls_.has_listener() && ranges->activities_.has_listener();
  return has_listener ? ranges : nullptr;
}

std::shared_ptr<const nvtx_call> nvtx_ranges::call(operation requested, bool grouped,
                                                   std::uint64_t bytes) const {
  const auto& row = row_of(requested);
  if (!row.moves_tensor)
    return nullptr;
  return std::make_shared<const nvtx_call>(shared_from_this(), call_name(row, grouped), bytes);
}

nvtx_range nvtx_ranges::activity(std::string_view path, operation requested, reduce_op reduction,
                                 std::uint64_t bytes) const {
  const auto& row = row_of(requested);
  if (!row.moves_tensor)
    return {};
  const bool adasum = row.takes_adasum && reduction == reduce_op::adasum;
  return {activities_, activity_name(path, requested, adasum), bytes};
}

} // namespace farandole
