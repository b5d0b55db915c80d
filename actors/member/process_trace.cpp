#include "actors/member/process_trace.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "messages/values/descriptor.hpp"

namespace farandole {

namespace {

/// To compress and write a trace, at the end of the process.
constexpr std::chrono::seconds longest_to_write{60};

/// Gives the file of a trace the first free name for its rank. That of a process without a rank keeps its name.
error name_by_rank(const std::string& folder, const written_trace& trace) {
  if (trace.rank < 0)
    return {};
  const auto path = folder + "/process-" + std::to_string(::getpid()) + ".trace";
  const auto by_rank = folder + "/rank-" + std::to_string(trace.rank);
  for (int number = 1; number < 1000; ++number) {
    const auto name = by_rank + (number == 1 ? "" : "-" + std::to_string(number)) + ".trace";
    // The new file reserves the name; a hard link would do so too, but not on every file system.
    if (const descriptor reserved(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        reserved) {
      if (::rename(path.c_str(), name.c_str()) == 0)
        return {};
      const auto reason = errno;
      ::unlink(name.c_str());
      errno = reason;
    }
    if (errno != EEXIST)
      break;
  }
  return {error_kind::unknown, path + " cannot be renamed: " + std::strerror(errno)};
}

} // namespace

std::unique_ptr<process_trace>
process_trace::begin(const settings& values, const std::shared_ptr<event_recorder>& recorder, logger& log) {
  const auto& folder = values.text(setting::trace);
  if (folder.empty())
    return nullptr;
  struct stat facts {};
  if (!recorder->records()) {
    log.warning(
        "FARANDOLE_TRACE has no effect, because FARANDOLE_RECORDER_EVENTS=0 disables the event record");
    return nullptr;
  }
  if (::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || ::access(folder.c_str(), W_OK) != 0) {
    log.warning("no trace is written: FARANDOLE_TRACE=" + folder +
                " must name an existing folder that this process may write to");
    return nullptr;
  }
  trace_plan plan;
  plan.bounds.bytes = static_cast<std::uint64_t>(values.integer(setting::trace_size)) << 20;
  plan.folder = folder;
  plan.sources = [region = recorder->region(), clock = recorder->clock()] {
    return std::vector<trace_source>{{region.get(), [region] { return expected(region); },
                                      [clock] {
                                        record_copy facts;
                                        facts.time = clock.read();
                                        return facts;
                                      }}};
  };
  return std::make_unique<process_trace>(folder, std::move(plan), log, longest_to_write);
}

process_trace::process_trace(std::string folder, trace_plan plan, logger& log, std::chrono::seconds patience)
    : folder_(std::move(folder)), log_(log), patience_(patience),
      writer_(std::make_unique<trace_writer>(std::move(plan))) {}

process_trace::~process_trace() {
  const auto written = std::make_shared<std::promise<written_traces>>();
  auto promised = written->get_future();
  writer_->end([written](written_traces traces) { written->set_value(std::move(traces)); });
  if (promised.wait_for(patience_) != std::future_status::ready) {
    log_.warning("the trace of this process was not written within " + std::to_string(patience_.count()) +
                 " s");
    auto* const writer = writer_.release();
    try {
      std::thread([writer] { delete writer; }).detach(); // waits for the writer's thread
    } catch (const std::system_error&) {
      return; // no thread may be started: the writer remains
    }
    return;
  }
  auto traces = promised.get();
  for (const auto& trace : traces.traces) {
    if (auto problem = name_by_rank(folder_, trace))
      traces.problems.push_back(problem.text);
    if (trace.is_full)
      log_.warning(
          "the trace of this process ended at its size of FARANDOLE_TRACE_SIZE, and has no later events");
    if (trace.dropped > 0)
      log_.warning("the trace of this process has gaps: " + std::to_string(trace.dropped) +
                   " events were overwritten before they could be copied; a higher FARANDOLE_RECORDER_EVENTS "
                   "prevents this");
  }
  for (const auto& problem : traces.problems)
    log_.warning("the trace of this process is incomplete: " + problem);
}

} // namespace farandole
