#include "elastic/stall_notices.hpp"

#include <algorithm>

namespace farandole {

namespace {

bool equal_but_for_times(const stall_notice& notice, const stall_notice& other) {
  return notice.count == other.count &&
         std::ranges::equal(notice.tensors, other.tensors,
                            [](const stalled_tensor& tensor, const stalled_tensor& other_tensor) {
                              return tensor.name == other_tensor.name &&
                                     tensor.missing == other_tensor.missing;
                            });
}

} // namespace

std::optional<stall_notice> stall_notices::update(std::span<const stalled_tensor> stalls,
                                                  std::chrono::nanoseconds current_time) {
  stall_notice notice{
      last_.source, {stalls.begin(), stalls.end()}, static_cast<std::uint32_t>(stalls.size())};
  std::ranges::stable_sort(notice.tensors, std::ranges::greater{}, &stalled_tensor::waited);
  notice.tensors.resize(std::min(notice.tensors.size(), most_stalled_tensors));
  const bool overdue = !notice.tensors.empty() && notice.tensors.front().waited > warning_;
  const bool repeated = !stalls.empty() && current_time - last_time_ >= warning_;
  if (equal_but_for_times(notice, last_) && overdue == overdue_ && !repeated)
    return std::nullopt;
  last_ = notice;
  last_time_ = current_time;
  overdue_ = overdue;
  return notice;
}

} // namespace farandole
