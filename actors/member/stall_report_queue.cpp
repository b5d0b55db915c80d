#include "actors/member/stall_report_queue.hpp"

#include <utility>

namespace farandole {

void stall_report_queue::push(stall_report report) {
  std::lock_guard lock(guard_);
  if (!awaited_ || closed_)
    return;
  reports_.push_back(std::move(report));
  if (reports_.size() > most_reports)
    reports_.pop_front();
  changed_.notify_one();
}

expected<stall_report> stall_report_queue::next(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(guard_);
  awaited_ = true;
  const auto is_ready = [this] { return closed_ || !reports_.empty(); };
  // Without a deadline, close() ends the wait.
  if (deadline == std::chrono::steady_clock::time_point::max())
    changed_.wait(lock, is_ready);
  else if (!changed_.wait_until(lock, deadline, is_ready))
    return error{error_kind::timed_out, "no stall was reported before the deadline"};
  if (closed_)
    return error{error_kind::shut_down,
                 "this member has left the job, so there are no further reports of stalls"};
  auto report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

void stall_report_queue::close() {
  std::lock_guard lock(guard_);
  closed_ = true;
  changed_.notify_all();
}

} // namespace farandole
