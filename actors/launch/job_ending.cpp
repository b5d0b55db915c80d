#include "actors/launch/job_ending.hpp"

#include <signal.h>

#include <cassert>
#include <cstring>
#include <utility>

namespace farandole {

auto job_ending::ended(std::int32_t process, const process_end& how, time_point now, std::int32_t culprit)
    -> step {
  assert(running_ > 0);
  --running_;
  step what;
  // Who ends after the launcher has sent a signal ends because of it.
  if (how.failed() && phase_ <= phase::grace)
    what = fail(culprit, how.code,
                "Process " + std::to_string(process) + " exit with status code " + std::to_string(how.code) +
                    ".",
                now);
  finish(what);
  return what;
}

auto job_ending::could_not_start(std::int32_t process, const std::string& why, int code, time_point now)
    -> step {
  assert(running_ > 0);
  --running_;
  step what =
      fail(process, code, "Process " + std::to_string(process) + " could not be started: " + why, now);
  if (std::exchange(start_failure_, why) == why)
    what.lines.clear();
  if (phase_ == phase::grace)
    signal_all(what, now); // nothing that ran has failed, so nobody has anything to say
  finish(what);
  return what;
}

auto job_ending::fail(std::int32_t culprit, int code, std::string line, time_point now) -> step {
  step what;
  what.lines.push_back(std::move(line));
  if (phase_ != phase::running)
    return what;
  failed_ = true;
  code_ = code;
  phase_ = phase::grace;
  if (running_ > 0) {
    what.lines.push_back("Terminating remaining workers after failure of Process " + std::to_string(culprit) +
                         ".");
    what.call_next = next_ = now + allowed_.grace;
  }
  return what;
}

auto job_ending::wind_up(int code, time_point now) -> step {
  step what;
  if (phase_ != phase::running)
    return what;
  code_ = code;
  phase_ = phase::grace;
  if (running_ > 0)
    what.call_next = next_ = now + allowed_.grace;
  return what;
}

auto job_ending::interrupted(int signal, time_point now) -> step {
  step what;
  if (interrupted_ && now - *interrupted_ < allowed_.same_signal)
    return what;
  interrupted_ = now;
  if (code_ == 0)
    code_ = 128 + signal;
  what.lines.push_back(std::string("farandole: ") + ::strsignal(signal) +
                       (phase_ < phase::terminating ? "; ending the workers" : "; killing the workers"));
  signal_all(what, now);
  finish(what);
  return what;
}

auto job_ending::due(time_point now) -> step {
  step what;
  if (phase_ == phase::running || phase_ == phase::killing || running_ == 0)
    return what;
  if (now < next_) {
    what.call_next = next_;
    return what;
  }
  signal_all(what, now);
  return what;
}

void job_ending::signal_all(step& what, time_point now) {
  if (phase_ < phase::terminating) {
    phase_ = phase::terminating;
    what.signal = SIGTERM;
    what.call_next = next_ = now + allowed_.kill_after;
  } else {
    phase_ = phase::killing;
    what.signal = SIGKILL;
  }
}

void job_ending::finish(step& what) {
  if (running_ > 0)
    return;
  what.done = true;
  what.signal = 0;
  what.call_next.reset();
}

std::vector<std::string> failure_summary(const failure_report& cause) {
  std::vector<std::string> lines{
      "Horovod detected that one or more processes exited with non-zero status. The one that caused it was:",
      "Process name: " + cause.process, "Exit code: " + std::to_string(cause.code),
      "Cause: Process " + cause.process + (cause.host.empty() ? "" : " on " + cause.host) + " " + cause.text};
  if (!cause.last_lines.empty())
    lines.emplace_back("Last lines of its stderr:");
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
