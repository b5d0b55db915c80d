#include "actors/launch/job_ending.hpp"

#include <signal.h>

#include <cassert>
#include <cstring>
#include <utility>

namespace farandole {

auto job_ending::times::of(const settings& values) -> times {
  return {.grace = values.duration(setting::exit_grace),
          .kill_after = values.duration(setting::termination_grace)};
}

auto job_ending::ended(std::int32_t process, const process_end& exit_status, time_point current_time,
                       std::int32_t culprit) -> step {
  assert(running_ > 0);
  --running_;
  step decision;
  // A process that ends after the launcher has sent signals ends because of the signal, so its end is no failure.
  if (exit_status.failed() && phase_ <= phase::grace)
    decision = fail(culprit, exit_status.code,
                    "Process " + std::to_string(process) + " exit with status code " +
                        std::to_string(exit_status.code) + ".",
                    current_time);
  finish(decision);
  return decision;
}

auto job_ending::could_not_start(std::int32_t process, const std::string& reason, int code,
                                 time_point current_time) -> step {
  assert(running_ > 0);
  --running_;
  step decision = fail(
      process, code, "Process " + std::to_string(process) + " could not be started: " + reason, current_time);
  if (std::exchange(start_failure_, reason) == reason)
    decision.lines.clear();
  if (phase_ == phase::grace)
    signal_all(decision, current_time); // a process that never ran leaves no error output to wait for
  finish(decision);
  return decision;
}

auto job_ending::fail(std::int32_t culprit, int code, std::string line, time_point current_time) -> step {
  step decision;
  decision.lines.push_back(std::move(line));
  if (phase_ != phase::running)
    return decision;
  failed_ = true;
  code_ = code;
  phase_ = phase::grace;
  if (running_ > 0) {
    decision.lines.push_back("Terminating remaining workers after failure of Process " +
                             std::to_string(culprit) + ".");
    decision.call_next = next_ = current_time + allowed_.grace;
  }
  return decision;
}

auto job_ending::wind_up(int code, time_point current_time) -> step {
  step decision;
  if (phase_ != phase::running)
    return decision;
  code_ = code;
  phase_ = phase::grace;
  if (running_ > 0)
    decision.call_next = next_ = current_time + allowed_.grace;
  return decision;
}

auto job_ending::interrupted(int signal, time_point current_time) -> step {
  step decision;
  if (interrupted_ && current_time - *interrupted_ < allowed_.same_signal)
    return decision;
  interrupted_ = current_time;
  if (code_ == 0)
    code_ = 128 + signal;
  decision.lines.push_back(std::string("farandole: ") + ::strsignal(signal) +
                           (phase_ < phase::terminating ? "; ending the workers" : "; killing the workers"));
  signal_all(decision, current_time);
  finish(decision);
  return decision;
}

auto job_ending::due(time_point current_time) -> step {
  step decision;
  if (phase_ == phase::running || phase_ == phase::killing || running_ == 0)
    return decision;
  if (current_time < next_) {
    decision.call_next = next_;
    return decision;
  }
  signal_all(decision, current_time);
  return decision;
}

void job_ending::signal_all(step& decision, time_point current_time) {
  if (phase_ < phase::terminating) {
    phase_ = phase::terminating;
    decision.signal = SIGTERM;
    decision.call_next = next_ = current_time + allowed_.kill_after;
  } else {
    phase_ = phase::killing;
    decision.signal = SIGKILL;
  }
}

void job_ending::finish(step& decision) {
  if (running_ > 0)
    return;
  decision.done = true;
  decision.signal = 0;
  decision.call_next.reset();
}

namespace {

/// The processes of which this holds, as "process 1" or "processes 0, 1 and 2"; empty if there are none.
template <class Holds>
std::string processes_where(const std::vector<failed_process>& processes, Holds holds) {
  std::vector<std::string> names;
  for (const auto& process : processes)
    if (holds(process))
      names.push_back(process.name);
  std::string text = names.empty() ? "" : names.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

} // namespace

std::vector<std::string> failure_summary(const failure_report& cause,
                                         const std::vector<failed_process>& others) {
  const auto same_error = processes_where(others, [&](const failed_process& other) {
    return !other.last_lines.empty() && !cause.last_lines.empty() &&
           other.last_lines.back() == cause.last_lines.back();
  });
  const auto same_lines = processes_where(
      others, [&](const failed_process& other) { return other.last_lines == cause.last_lines; });
  std::vector<std::string> lines{
      std::string("Horovod detected that one or more processes exited with non-zero status. ") +
          (same_error.empty() ? "The one that caused it was:"
                              : "The first of several with the same error was:"),
      "Process name: " + cause.process, "Exit code: " + std::to_string(cause.code),
      "Cause: Process " + cause.process + (cause.host.empty() ? "" : " on " + cause.host) + " " + cause.text};
  if (!same_error.empty())
    lines.push_back("The same error ended " + same_error +
                    ", so none of these processes is the cause alone.");
  if (!cause.last_lines.empty())
    lines.push_back("Last lines of its stderr" +
                    (same_lines.empty() ? "" : ", the same as of " + same_lines) + ":");
  for (const auto& line : cause.last_lines)
    lines.push_back("    " + line);
  if (!cause.label.empty())
    lines.push_back("Full output: " + (cause.folder.empty()
                                           ? "the lines above that begin with [" + cause.label +
                                                 "]; --output-filename keeps a copy of each process's output"
                                           : cause.folder + "/stdout and " + cause.folder + "/stderr"));
  return lines;
}

} // namespace farandole
