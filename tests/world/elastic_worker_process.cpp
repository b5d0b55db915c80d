// Starts, signals and ends the process of a simulated worker.
#include <csignal>

#include "tests/world/elastic_worker.hpp"

namespace farandole::testing {

void elastic_worker::start() {
  if (gone_)
    return;
  const running_process scope(stage_.world.all_processes(), id_of(slot_));
  started_ = true;
  stage_.log.note([&] { return description() + " starts on " + host_; });
  begin();
}

// A stopped process takes no signal except SIGKILL.
void elastic_worker::kill(int signal) {
  if (gone_)
    return;
  if (signal != SIGKILL && stage_.world.all_processes().stopped(id_of(slot_)))
    pending_signal_ = signal;
  else
    exit(128 + signal, signal);
}

void elastic_worker::stop() {
  stage_.silences.stopped(slot_, stage_.world.now());
  stage_.world.all_processes().stop(id_of(slot_));
}

void elastic_worker::proceed() {
  if (gone_)
    return;
  stage_.silences.continued(slot_, stage_.world.now());
  stage_.world.proceed(id_of(slot_));
  stage_.net.proceed(id_of(slot_));
  if (pending_signal_ != 0)
    kill(pending_signal_);
}

void elastic_worker::exit(int code, int signal) {
  stage_.log.note([&] {
    return description() + " ends with code " + std::to_string(code) +
           (failure_ ? " (" + std::string(to_string(failure_.kind)) + ": " + failure_.text + ")" : "");
  });
  gone_ = true;
  stage_.silences.continued(slot_, stage_.world.now());
  stage_.net.end_process(id_of(slot_));
  stage_.plane.end_process(id_of(slot_));
  drop_runtime();
  // If processes are told apart, its pending steps are dropped.
  if (stage_.world.all_processes().told_apart())
    stage_.world.all_processes().stop(id_of(slot_));
  ended_({code, signal});
}

} // namespace farandole::testing
