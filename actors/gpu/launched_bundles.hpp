// The bundles of a lane whose operations are settled while a device still works on them, oldest first. Reports the end of
// every bundle of the lane, in order: those of the host too, if older ones are launched. Used on the lane's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/gpu/device_deadline.hpp"
#include "actors/gpu/device_ledger.hpp"
#include "actors/submission/operation_state.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct launched_bundle {
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;                          ///< of the inputs
  std::vector<operation_state_ptr> operations = {}; ///< keep what the device touches
  device_progress progress = {};
  bool waits_for_members = false; ///< the device's work ends only if the other members do theirs
  error cause = {};               ///< with which its operations were settled
  std::uint64_t larger_side = 0;  ///< bytes of the inputs or of the outputs; its time depends on them
};

/// How long a device may work on a bundle of less than 1 GiB (timeout_of_call() has the rule for larger ones), and the
/// setting, for the error: "operation timeout (…) = 30 s".
struct device_timeout {
  std::chrono::nanoseconds length{};
  std::string citation = {};
};

/// The error of a device that has worked on the bundle for too long. `aborted`, if given, if the device cannot end the
/// work by itself: it has not begun, or its work waits for other members.
error overdue(const launched_bundle& bundle, device_deadline& deadline,
              device_deadline::time_point current_time, const error& aborted, const std::string& citation);

class launched_bundles {
public:
  using time_point = device_deadline::time_point;
  /// Reports the end of a bundle, and the error with which it ended.
  using reporter = std::function<void(std::uint64_t sequence, std::uint64_t bytes, const error& reason)>;

  launched_bundles(reporter finished, std::shared_ptr<device_ledger> ledger, device_timeout timeout)
      : finished_(std::move(finished)), ledger_(std::move(ledger)), timeout_(std::move(timeout)) {}

  bool empty() const { return bundles_.empty(); }
  std::size_t size() const { return bundles_.size(); }

  /// How long a device may work on the bundle.
  device_deadline deadline_of(const launched_bundle& bundle) const;
  /// Adds a bundle, and has its operations settled by `settle` once the ledger knows of it: a caller that then waits for
  /// all devices waits for this bundle, too. It is reported at once if no device works on it or on an older one.
  void add(launched_bundle bundle, const std::function<void()>& settle);
  /// Reports the bundles that have ended, up to the first that has not. Returns whether there was one.
  bool release_ended();
  /// overdue() of the oldest bundle; none if there is none.
  error overdue(time_point current_time, const error& aborted);
  /// Reports all bundles, with this reason unless they have ended. The operations that devices still work on keep their
  /// buffers, and no caller waits for them any more.
  void give_up(const error& reason);

private:
  struct entry {
    launched_bundle bundle;
    bool counted = false; ///< in the ledger
    device_deadline deadline;
  };

  launched_bundle take_first();

  reporter finished_;
  std::shared_ptr<device_ledger> ledger_;
  device_timeout timeout_;
  std::deque<entry> bundles_;
};

} // namespace farandole
