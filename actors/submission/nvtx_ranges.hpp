// The ranges that a profiler such as Nsight Systems shows beside the work of the GPU: each call of an operation from its
// submission until it is complete, and each run of a data path. Without a profiler, no object of these classes exists, and
// an operation costs the test of a null pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "actors/submission/nvtx_domain.hpp"
#include "collectives/operation.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// A range that lasts as long as the object. The object may be destroyed on another thread. The domain lives longer.
class nvtx_range {
public:
  nvtx_range() = default; ///< no range
  nvtx_range(const nvtx_domain& domain, const std::string& name, std::uint64_t payload)
      : domain_(&domain), range_(domain.begin(name, payload)) {}
  nvtx_range(nvtx_range&& other) noexcept
      : domain_(std::exchange(other.domain_, nullptr)), range_(other.range_) {}
  nvtx_range& operator=(nvtx_range&&) = delete;
  ~nvtx_range() {
    if (domain_)
      domain_->end(range_);
  }

private:
  const nvtx_domain* domain_ = nullptr;
  std::uint64_t range_ = 0;
};

class nvtx_ranges;

/// The range of one call, which all operations of a group share: it ends with the last of them.
class nvtx_call {
public:
  nvtx_call(std::shared_ptr<const nvtx_ranges> ranges, const std::string& name, std::uint64_t bytes);

  const nvtx_ranges& ranges() const { return *ranges_; }

private:
  std::shared_ptr<const nvtx_ranges> ranges_; ///< outlives the range
  nvtx_range range_;
};

/// The ranges of one runtime. Thread-safe.
class nvtx_ranges : public std::enable_shared_from_this<nvtx_ranges> {
public:
  /// Null if no profiler listens, or if this build has no NVTX.
  static std::shared_ptr<const nvtx_ranges> open();

  /// Begins the range of a call, with the bytes of all its inputs; `grouped`: of a group. Null for operations that move no
  /// tensor.
  std::shared_ptr<const nvtx_call> call(operation requested, bool grouped, std::uint64_t bytes) const;
  /// Begins the range of a path's run. Empty for operations that move no tensor.
  nvtx_range activity(std::string_view path, operation requested, reduce_op reduction,
                      std::uint64_t bytes) const;

private:
  friend class nvtx_call;
  nvtx_ranges() = default;

  nvtx_domain calls_{"HorovodTimeline"};
  nvtx_domain activities_{"HorovodTimelineActivities"};
};

} // namespace farandole
