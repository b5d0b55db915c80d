#include "actors/launch/launcher.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <random>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/launch/elastic_driver.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/process_keeper.hpp"
#include "actors/launch/remote_rendezvous.hpp"
#include "actors/rendezvous/rendezvous.hpp"

namespace farandole {

namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&set, number);
  return set;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

auto exit_reporter(const caf::actor& rendezvous) {
  return [rendezvous](std::int32_t slot, const std::string& manner) {
    caf::anon_send(rendezvous, slot_exited{slot, manner});
  };
}

/// Measures the duration of a job and logs it when the job has ended.
class job_duration {
public:
  explicit job_duration(logger& log) : log_(log) {}

  /// Returns `code`, the exit code of the job.
  int ended(int code) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", seconds.count());
    log_.info("the job ended with exit code " + std::to_string(code) + " after " + text + " s");
    return code;
  }

private:
  logger& log_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Waits for a driver to finish. Forwards the two events that end a job: signals, and the message that another
/// rendezvous has replaced the job's own.
class job_watch {
public:
  job_watch()
      : done_{::eventfd(0, EFD_CLOEXEC)}, superseded_{::eventfd(0, EFD_CLOEXEC)},
        interrupts_{[set = ending_signals()] { return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); }()} {
    assert(done_ && superseded_ && interrupts_);
  }

  /// The callback for a driver that has finished; called on the loop.
  std::function<void(int)> finished() {
    return [this](int result) {
      code_ = result;
      ring(done_);
    };
  }
  /// The callback for a rendezvous that was replaced and has logged the reason; called on the loop.
  std::function<void()> stepped_down() {
    return [this] { ring(superseded_); };
  }

  /// For a launcher without a driver: waits until a signal arrives.
  int wait() {
    return wait([](int) { return true; });
  }
  template <class Driver>
  int wait_for(const Driver& driver) {
    return wait([&](int signal) {
      caf::anon_send(driver, interrupt_atom::value, signal);
      return false;
    });
  }

private:
  static void ring(const descriptor& bell) {
    const std::uint64_t number = 1;
    [[maybe_unused]] const auto count = ::write(bell.get(), &number, sizeof number);
  }

  /// `interrupt(signal)` returns true if the wait is to end.
  template <class Interrupt>
  int wait(Interrupt&& interrupt) {
    pollfd watched[3] = {
        {done_.get(), POLLIN, 0}, {interrupts_.get(), POLLIN, 0}, {superseded_.get(), POLLIN, 0}};
    bool replaced = false;
    for (;;) {
      // No deadline: the duration of a job is not limited, and the descriptors end the wait.
      if (::poll(watched, 3, -1) < 0) {
        assert(errno == EINTR);
        continue;
      }
      // Checked first, because workers may end as a consequence, and the exit code must tell that.
      if (watched[2].revents != 0) {
        watched[2] = {-1, 0, 0}; // handle it only once
        replaced = true;
        if (interrupt(SIGTERM))
          return 1;
      }
      if (watched[0].revents != 0)
        return replaced ? 1 : code_.load();
      signalfd_siginfo info;
      while (::read(interrupts_.get(), &info, sizeof info) == sizeof info)
        if (interrupt(static_cast<int>(info.ssi_signo)))
          return 0;
    }
  }

  descriptor done_, superseded_, interrupts_;
  std::atomic<int> code_{0};
};

} // namespace

/// Destroyed in reverse order: the writer writes all output before the actor system ends, and the keeper ends last.
struct launcher::parts {
  parts(process_keeper started, const launcher_options& options)
      : keeper(std::move(started)), values(options.values), log(log_options_of(options.values)) {}

  process_keeper keeper;
  settings values;
  logger log;
  job_watch watch;
  loop_system system;
  output_writer writer;
  caf::actor rendezvous; ///< the rendezvous, or the remote_rendezvous actor if it runs in another process
  std::uint16_t port = 0;
  std::vector<failed_host> failed; ///< hosts that failed, from the journal of an earlier launcher
};

launcher::launcher(std::unique_ptr<parts> made) : parts_(std::move(made)) {}

launcher::~launcher() {
  if (parts_->rendezvous)
    caf::anon_send(parts_->rendezvous, close_atom::value);
  // The writer may block for as long as the reader of the output does not read. Unblock the signals, so that the
  // process can still be stopped.
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

expected<std::unique_ptr<launcher>> launcher::open(const launcher_options& options) {
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN); // a write to a closed pipe fails with EPIPE and does not end the launcher
  auto keeper = process_keeper::start();
  if (!keeper)
    return keeper.error();
  auto made = std::make_unique<parts>(std::move(*keeper), options);
  made->port = options.port;
  if (options.remote_ip.empty())
    if (auto problem = start_own(*made, options))
      return problem;
  std::unique_ptr<launcher> started(new launcher(std::move(made)));
  if (!options.remote_ip.empty())
    started->start_remote(options);
  return started;
}

error launcher::start_own(parts& made, const launcher_options& options) {
  rendezvous_options settings;
  settings.members = options.members;
  settings.settings = options.values;
  settings.links = link_settings::of(options.values);
  settings.links.credentials = std::make_shared<const tls_credentials>(options.secret);
  settings.links.log = &made.log;
  settings.bind_ip = options.bind_ip;
  settings.port = options.port;
  settings.log = &made.log;
  settings.apart = options.apart;
  settings.draw = static_cast<std::uint32_t>(std::random_device{}());
  settings.hosts = options.hosts;
  settings.stepped_down = made.watch.stepped_down();
  if (!options.journal.empty()) {
    const auto rule =
        options.ignore_journal_damage ? journal::damaged::go_on_before_it : journal::damaged::refuse;
    auto opened_journal = journal::open(options.journal, local_disk(), rule);
    if (!opened_journal)
      return opened_journal.error();
    settings.journal = std::move(*opened_journal);
    if (!settings.journal->repaired().empty())
      made.log.warning(settings.journal->repaired());
    if (!options.apart)
      made.failed = settings.journal->failed();
  }
  auto service = start_rendezvous(made.system.get(), settings);
  if (!service)
    return service.error();
  made.rendezvous = caf::actor_cast<caf::actor>(service->actor);
  made.port = service->port;
  return {};
}

void launcher::start_remote(const launcher_options& options) {
  remote_rendezvous_spec spec;
  spec.ip = options.remote_ip;
  spec.port = options.port;
  spec.links = link_settings::of(options.values);
  spec.links.credentials = std::make_shared<const tls_credentials>(options.secret);
  spec.links.connect_timeout = options.values.duration(setting::start_timeout);
  spec.links.connect_timeout_setting = options.values.cited(setting::start_timeout);
  spec.links.log = &parts_->log;
  std::random_device chance;
  spec.job = (std::uint64_t{chance()} << 32U) | chance() | 1U;
  spec.patience = options.values.duration(setting::rendezvous_timeout);
  spec.patience_setting = options.values.cited(setting::rendezvous_timeout);
  spec.log = &parts_->log;
  parts_->rendezvous = caf::actor_cast<caf::actor>(start_remote_rendezvous(parts_->system.get(), spec));
}

std::uint16_t launcher::port() const {
  return parts_->port;
}

logger& launcher::log() {
  return parts_->log;
}

error launcher::copy_output(slot_spec& slot, const std::string& folder) {
  const char* names[2] = {"/stdout", "/stderr"};
  for (int number : {0, 1}) {
    auto file = parts_->writer.open(folder + names[number]);
    if (!file)
      return file.error();
    slot.files[number] = *file;
  }
  slot.folder = folder;
  return {};
}

int launcher::serve() {
  return parts_->watch.wait();
}

int launcher::run(std::vector<slot_spec> slots) {
  const job_duration duration(parts_->log);
  const auto size = slots.size();
  std::size_t started = 0; // accessed only on the loop; this function returns after the last access
  for (auto& slot : slots) {
    slot.process.keeper = &parts_->keeper;
    slot.started = [&, rank = slot.slot](pid_t process) {
      parts_->log.debug("rank " + std::to_string(rank) + " started as process " + std::to_string(process));
      if (++started == size)
        parts_->log.info(size == 1 ? "1 rank started" : "all " + std::to_string(size) + " ranks started");
    };
  }
  host_driver_spec spec;
  spec.slots = std::move(slots);
  spec.times.grace = parts_->values.duration(setting::exit_grace);
  spec.slot_exited = exit_reporter(parts_->rendezvous);
  spec.finished = parts_->watch.finished();
  const auto driver = parts_->system.get().spawn(host_driver, spec, &parts_->writer);
  caf::anon_send(parts_->rendezvous, watch_fates{driver});
  caf::anon_send(driver, start_atom::value);
  return duration.ended(parts_->watch.wait_for(driver));
}

int launcher::run(const elastic_job& job) {
  const job_duration duration(parts_->log);
  elastic_driver_spec spec;
  spec.scheduler = job.scheduler;
  spec.hosts = job.hosts;
  if (!job.script.empty()) {
    spec.script.emplace();
    spec.script->name = job.script;
    spec.script->script.arguments = {job.script};
    spec.script->script.environment = own_environment();
    spec.script->script.keeper = &parts_->keeper;
    spec.script->slots_per_host = job.slots_per_host;
    spec.script->timeout = parts_->values.duration(setting::discovery_timeout);
    spec.script->objection = job.objection;
  }
  spec.times.grace = parts_->values.duration(setting::exit_grace);
  spec.seed = std::random_device{}();
  const auto rendezvous = parts_->rendezvous;
  spec.slot_for = [&, rendezvous](const worker_scheduler::start& start) {
    caf::anon_send(rendezvous, slot_started{start.slot, start.host});
    auto slot = job.slot_for(start);
    if (slot) {
      slot->process.keeper = &parts_->keeper;
      slot->started = [this, start](pid_t process) {
        parts_->log.info("worker " + std::to_string(start.slot) + " started on " + start.host +
                         " as process " + std::to_string(process));
      };
    }
    return slot;
  };
  spec.slot_exited = exit_reporter(parts_->rendezvous);
  spec.finished = parts_->watch.finished();
  spec.slot_retired = [rendezvous](std::int32_t slot) { caf::anon_send(rendezvous, slot_retired{slot}); };
  spec.no_more_starts = [rendezvous] { caf::anon_send(rendezvous, no_more_starts{}); };
  spec.answer_drain = [rendezvous](const drain_answered& answer) { caf::anon_send(rendezvous, answer); };
  spec.failed = parts_->failed;
  spec.hosts_failed = [rendezvous](std::vector<failed_host> hosts) {
    caf::anon_send(rendezvous, hosts_failed{std::move(hosts)});
  };
  const auto driver = parts_->system.get().spawn(elastic_driver, spec, &parts_->writer);
  caf::anon_send(rendezvous, watch_generations{driver});
  caf::anon_send(rendezvous, watch_fates{driver});
  caf::anon_send(driver, start_atom::value);
  const auto code = parts_->watch.wait_for(driver);
  // Clear the blacklist in the journal: the job has ended, and the next one that uses the journal is another job.
  caf::anon_send(rendezvous, hosts_failed{});
  return duration.ended(code);
}

} // namespace farandole
