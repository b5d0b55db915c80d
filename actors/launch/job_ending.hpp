// Decides when and how a job ends. The failure of one worker ends the whole job: the others have a grace period to
// notice the failure and to print their errors, then they receive SIGTERM, then SIGKILL. A signal to the launcher
// ends the job in the same way, without the grace period.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/process.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

class job_ending {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct times {
    std::chrono::nanoseconds grace{0};      ///< from the first failure to SIGTERM
    std::chrono::nanoseconds kill_after{0}; ///< from SIGTERM to SIGKILL
    /// A signal that arrives this soon after another counts as the same signal, because terminals and wrappers may
    /// send a signal twice.
    std::chrono::nanoseconds same_signal = std::chrono::milliseconds{500};

    static times of(const settings& values);
  };

  /// The actions that the caller must take now.
  struct step {
    int signal = 0;                      ///< send this signal to every process that has not ended; 0: none
    std::vector<std::string> lines;      ///< print these lines
    std::optional<time_point> call_next; ///< call due() at this time
    bool done = false;                   ///< every process has ended
  };

  job_ending(std::int32_t processes, times allowed) : allowed_(allowed), running_(processes) {}

  /// Reports that a process has ended. `culprit` is the process whose end made this one fail, or the process itself.
  step ended(std::int32_t process, const process_end& exit_status, time_point current_time,
             std::int32_t culprit);
  /// Reports that a process could not be started. Counts as a failure with this code. If the reason is the same as
  /// for the last such process, it is not printed again.
  step could_not_start(std::int32_t process, const std::string& reason, int code, time_point current_time);

  // For elastic jobs, in which the worker scheduler decides what the end of a process means:
  /// One more process runs.
  void started() { ++running_; }
  /// A process has ended.
  void left() { --running_; }
  /// The job ends with this code. Processes that still run have the same grace period as after a failure.
  step wind_up(int code, time_point current_time);

  /// The launcher received a signal to end. The first signal terminates the processes; a second one kills them.
  step interrupted(int signal, time_point current_time);
  /// Call at the time of `call_next`; an earlier call does nothing.
  step due(time_point current_time);

  /// The exit code: 0, the code of the first failure, or 128 + the number of the signal that ended the launcher.
  int code() const { return code_; }
  /// Whether the job ends because a process has failed.
  bool failed() const { return failed_; }
  /// Whether the processes were sent a signal. From then on their exit codes do not matter.
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
  std::string start_failure_; ///< the last start failure that was printed
};

/// Describes the process whose failure made a job fail.
struct failure_report {
  std::string process;                ///< "1", or "host[0]" in an elastic job
  int code = 0;                       ///< its exit code
  std::string host;                   ///< empty if it is not known
  std::string text;                   ///< "exited with code 3"
  std::string label;                  ///< prefix of its lines in the output: "1"; empty if it wrote none
  std::string folder;                 ///< contains copies of its output; empty if there are none
  std::deque<std::string> last_lines; ///< the last lines of its standard error
};

/// Another process that failed.
struct failed_process {
  std::string name;
  std::deque<std::string> last_lines; ///< as in failure_report
};

/// Returns the last block of a failed job's output. There is one such block, however many processes failed. Ranks that
/// disagree all end with the same error, as the last lines of `others` show: then the block says so.
std::vector<std::string> failure_summary(const failure_report& cause,
                                         const std::vector<failed_process>& others);

} // namespace farandole
