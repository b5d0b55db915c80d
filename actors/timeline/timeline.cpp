#include "actors/timeline/timeline.hpp"

#include <pthread.h>

#include <csignal>
#include <future>
#include <system_error>
#include <utility>

#include "actors/timeline/timeline_writer.hpp"

namespace farandole {

namespace {

constexpr auto thread_name = "fd-timeline";

// The thread inherits a mask that blocks every signal, so signals go to the framework's threads.
std::thread started(std::shared_ptr<timeline_writer> writer) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([writer = std::move(writer)] { writer->run(); });
    pthread_setname_np(thread.native_handle(), thread_name);
  } catch (const std::system_error&) { // the thread is not joinable then
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

} // namespace

timeline::timeline(std::shared_ptr<event_recorder> recorder, logger& log, std::chrono::nanoseconds patience)
    : recorder_(std::move(recorder)), log_(log), patience_(patience) {}

timeline::~timeline() {
  stop();
}

void timeline::start(const std::string& path, bool mark_cycles) {
  std::lock_guard guard(mutex_);
  if (writer_ && path == path_ && !writer_->failed())
    return;
  stop_locked();
  auto created =
      timeline_writer::create(recorder_, path, mark_cycles,
                              [this](log_level level, const std::string& text) { log_.write(level, text); });
  if (!created)
    return log_.error(created.error().text + "; training continues without the timeline");
  auto thread = started(*created);
  if (!thread.joinable()) {
    recorder_->detailed(false);
    return log_.error("the timeline cannot be written to " + path +
                      ": this process may not start the thread for it; raise its limits (ulimit -u)");
  }
  path_ = path;
  writer_ = std::move(*created);
  thread_ = std::move(thread);
}

bool timeline::stop() {
  std::lock_guard guard(mutex_);
  return stop_locked();
}

bool timeline::stop_locked() {
  if (!writer_)
    return false;
  const auto ended = writer_->ended();
  writer_->end();
  if (ended.wait_for(patience_) == std::future_status::ready) {
    thread_.join();
  } else {
    writer_->forget_report();
    thread_.detach();
    log_.error("the timeline in " + path_ + " could not be completed: its file system does not answer");
  }
  writer_.reset();
  return true;
}

} // namespace farandole
