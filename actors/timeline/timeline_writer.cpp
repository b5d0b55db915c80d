#include "actors/timeline/timeline_writer.hpp"

#include <limits>
#include <thread>
#include <utility>

namespace farandole {

namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A thread writes at most some 4,000 events within this time, which its ring holds.
constexpr std::chrono::microseconds read_interval{500};
// After so many reads without an event the thread sleeps until there is one.
constexpr std::uint32_t reads_before_sleep = 4;
// Records are collected for at most this time, or until there are so many bytes.
constexpr std::chrono::milliseconds write_interval{20};
constexpr std::size_t write_bytes = std::size_t{64} << 10;
// If the kernel cannot guarantee that an event wakes the thread.
constexpr std::chrono::milliseconds short_sleep{20};
constexpr std::chrono::hours long_sleep{1};
// Two readings of the clocks this far apart give the rate of the ticks.
constexpr std::chrono::milliseconds clock_interval{100};

tick_reading origin_of(const event_recorder& recorder) {
  const auto& header = recorder.region()->header();
  return {header.origin_ticks.load(std::memory_order_relaxed),
          std::chrono::nanoseconds(header.origin_steady_ns.load(std::memory_order_relaxed)),
          std::chrono::nanoseconds(header.origin_system_ns.load(std::memory_order_relaxed))};
}

std::string loss_warning(const std::string& path, std::uint64_t dropped) {
  return "the timeline in " + path + " is incomplete: " + std::to_string(dropped) +
         " events were overwritten before they could be written, and perhaps more later; its records "
         "DROPPED_EVENTS count them; a higher FARANDOLE_RECORDER_EVENTS keeps more";
}

} // namespace

timeline_writer::timeline_writer(std::shared_ptr<event_recorder> recorder, std::string path, bool mark_cycles,
                                 timeline_report report)
    : recorder_(std::move(recorder)), path_(std::move(path)), report_(std::move(report)),
      follower_(*recorder_), last_reading_(recorder_->clock().read()),
      scale_(tick_scale::between(origin_of(*recorder_), last_reading_)),
      records_([names = recorder_->region()->names()](std::uint32_t index) { return names.at(index); },
               mark_cycles, last_reading_) {}

expected<std::shared_ptr<timeline_writer>> timeline_writer::create(std::shared_ptr<event_recorder> recorder,
                                                                   const std::string& path, bool mark_cycles,
                                                                   timeline_report report) {
  if (!recorder->records())
    return error{error_kind::precondition,
                 "the timeline cannot be written to " + path +
                     ": there is no memory for the event record; allow this process "
                     "more memory (ulimit -v)"};
  std::shared_ptr<timeline_writer> created(
      new timeline_writer(std::move(recorder), path, mark_cycles, std::move(report)));
  auto file = timeline_file::create(path, created->records_.take());
  if (!file)
    return file.error();
  created->file_ = std::move(*file);
  created->recorder_->detailed(true);
  return created;
}

timeline_writer::~timeline_writer() = default;

void timeline_writer::run() {
  while (!ending() && !failed()) {
    idle_reads_ = read_events(recorder_->clock().now()) ? 0 : idle_reads_ + 1;
    if (records_.size() >= write_bytes || clock::now() - unwritten_since_ >= write_interval)
      write();
    if (!failed())
      rest();
  }
  recorder_->detailed(false);
  if (!failed()) {
    read_events(std::numeric_limits<std::uint64_t>::max());
    records_.finish(recorder_->clock().now(), scale_);
    write();
  }
  file_.reset();
  ended_.set_value();
}

// An event that is recorded after the announcement wakes the thread. Those before it are found by has_news().
void timeline_writer::rest() {
  if (idle_reads_ < reads_before_sleep)
    return std::this_thread::sleep_for(read_interval);
  write();
  const bool is_certain = recorder_->announce_sleep();
  if (ending() || failed() || follower_.has_news())
    recorder_->sleep(0ns); // takes the announcement back
  else
    recorder_->sleep(is_certain ? std::chrono::nanoseconds(long_sleep)
                                : std::chrono::nanoseconds(short_sleep));
}

bool timeline_writer::read_events(std::uint64_t end_ticks) {
  read_clock();
  const auto batch = follower_.take(end_ticks);
  if (batch.events.empty() && batch.dropped == 0)
    return false;
  if (records_.size() == 0)
    unwritten_since_ = clock::now();
  if (batch.dropped != 0) {
    records_.lost(batch.dropped, batch.events.empty() ? recorder_->clock().now() : batch.events.front().ticks,
                  scale_);
    if (!std::exchange(reported_loss_, true))
      report(log_level::warning, loss_warning(path_, batch.dropped));
  }
  for (const auto& entry : batch.events)
    records_.add(entry, scale_);
  return true;
}

void timeline_writer::read_clock() {
  if (clock::now().time_since_epoch() - last_reading_.steady < clock_interval)
    return;
  const auto reading = recorder_->clock().read();
  scale_ = tick_scale::between(last_reading_, reading);
  last_reading_ = reading;
}

void timeline_writer::write() {
  if (auto problem = file_->append(records_.take())) {
    failed_.store(true, std::memory_order_release);
    report(log_level::error, problem.text + "; training continues without the timeline");
  }
}

void timeline_writer::end() {
  ending_.store(true, std::memory_order_release);
  recorder_->wake();
}

void timeline_writer::report(log_level level, const std::string& text) {
  std::lock_guard guard(report_mutex_);
  if (report_)
    report_(level, text);
}

void timeline_writer::forget_report() {
  std::lock_guard guard(report_mutex_);
  report_ = nullptr;
}

} // namespace farandole
