// When does a job end, and how? One worker that fails ends it for all: the others get some time to notice and
// to say what they have to say, then SIGTERM, then SIGKILL. A signal to the launcher does the same without
// that time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/process.hpp"

namespace farandole {

class job_ending {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct times {
    std::chrono::nanoseconds grace; ///< from the first failure to SIGTERM
    std::chrono::nanoseconds kill_after = std::chrono::seconds{5};
    /// Signals that come this soon after another are the same one: terminals and wrappers send it twice.
    std::chrono::nanoseconds same_signal = std::chrono::milliseconds{500};
  };

  /// What to do now.
  struct step {
    int signal = 0;                      ///< send this to every process that has not ended; 0: nothing
    std::vector<std::string> lines;      ///< tell people
    std::optional<time_point> call_next; ///< call due() then
    bool done = false;                   ///< every process has ended
  };

  job_ending(std::int32_t processes, times allowed) : allowed_(allowed), running_(processes) {}

  /// `culprit`: the process by whose end this one failed; itself if it failed on its own.
  step ended(std::int32_t process, const process_end& exit_status, time_point current_time,
             std::int32_t culprit);
  /// It never ran. Counts as a failure with this code. A reason that was told of another process already is
  /// not told again.
  step could_not_start(std::int32_t process, const std::string& reason, int code, time_point current_time);

  // Where others judge what the end of a process means (elastic jobs):
  /// One more process runs.
  void started() { ++running_; }
  /// A process has ended.
  void left() { --running_; }
  /// The job is over, with this code: who still runs gets the time that others get after a failure.
  step wind_up(int code, time_point current_time);

  /// The launcher was told to end, by a signal. The second time it is meant seriously.
  step interrupted(int signal, time_point current_time);
  /// The time asked for by `call_next` has come; an earlier call does nothing.
  step due(time_point current_time);

  /// 0, the code of the first failure, or 128 + the signal that ended the launcher.
  int code() const { return code_; }
  /// Whether a process has failed before anything else ended the job.
  bool failed() const { return failed_; }
  /// Whether the processes have been sent a signal: how they end does not matter any more.
  bool signalled() const { return phase_ >= phase::terminating; }

private:
  enum class phase : std::uint8_t { running, grace, terminating, killing };

  step fail(std::int32_t culprit, int code, std::string line, time_point current_time);
  void signal_all(step& decision, time_point current_time);
  void finish(step& decision);

  times allowed_;
  std::int32_t running_;
  phase phase_ = phase::running;
  time_point next_{};
  std::optional<time_point> interrupted_;
  int code_ = 0;
  bool failed_ = false;
  std::string start_failure_; ///< why a process could not be started, as told last
};

/// Of the process whose failure made a job fail.
struct failure_report {
  std::string process;                ///< "1", or "host[0]" in an elastic job
  int code = 0;                       ///< the launcher's exit code
  std::string host;                   ///< empty: not known
  std::string text;                   ///< "exited with code 3"
  std::string label;                  ///< of its lines in the launcher's output: "1"; empty: it wrote none
  std::string folder;                 ///< with copies of its output; empty: there are none
  std::deque<std::string> last_lines; ///< of its errors
};

/// The end of a failed job's output: one block, however many processes failed.
std::vector<std::string> failure_summary(const failure_report& cause);

} // namespace farandole
