#include "actors/launch/launcher.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <random>
#include <set>

#include "actors/interfaces/slots.hpp"
#include "actors/launch/elastic_driver.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/launcher_parts.hpp"
#include "actors/launch/remote_rendezvous.hpp"
#include "actors/rendezvous/rendezvous.hpp"

namespace farandole {

namespace {

auto exit_reporter(const caf::actor& rendezvous, caller_output* caller) {
  return [rendezvous, caller](std::int32_t slot, const std::string& manner) {
    caf::anon_send(rendezvous, slot_exited{slot, manner});
    if (caller)
      caller->ended(slot, manner);
  };
}

/// For the records and traces of other hosts, and for the disk, at the end of a job.
constexpr std::chrono::seconds longest_for_hosts{10}, longest_for_disk{10};

std::string not_kept(const error& problem) {
  return "the event records of the workers, for farandole explain, cannot be kept: " + problem.text;
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

} // namespace

launcher::launcher(std::unique_ptr<parts> made) : parts_(std::move(made)) {}

launcher::~launcher() {
  if (parts_->caller_input)
    caf::anon_send(parts_->caller_input, close_atom::value);
  parts_->input.stop(); // its thread sends to an actor, so it ends before the actor system
  if (parts_->standard_input)
    caf::anon_send(parts_->standard_input, close_atom::value);
  if (parts_->gatherer)
    caf::anon_send(parts_->gatherer, close_atom::value);
  if (parts_->agents)
    caf::anon_send(parts_->agents, close_atom::value);
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
  made->explain = options.explain;
  if (options.call_descriptor >= 0) {
    made->caller = std::make_unique<caller_output>(options.call_descriptor);
    // A caller that is gone ends the job as SIGTERM does, even if this process ignores that signal.
    made->caller_input =
        made->system.get().spawn(caller_input, options.call_descriptor, made->watch.stepped_down());
  }
  error problem;
  if (options.remote_ip.empty())
    problem = start_own(*made, options);
  if (!problem && !options.agents.bind_ips.empty())
    problem = start_agents(*made, options);
  if (problem) {
    if (made->rendezvous)
      caf::anon_send(made->rendezvous, close_atom::value);
    if (made->agents)
      caf::anon_send(made->agents, close_atom::value);
    if (made->caller_input)
      caf::anon_send(made->caller_input, close_atom::value);
    return problem;
  }
  std::unique_ptr<launcher> started(new launcher(std::move(made)));
  started->start_input(options);
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
  settings.bind_ips = options.bind_ips;
  settings.port = options.port;
  settings.log = &made.log;
  settings.apart = options.apart;
  settings.draw = static_cast<std::uint32_t>(std::random_device{}());
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

void launcher::start_input(const launcher_options& options) {
  parts_->input_slot = options.input_slot;
  if (options.input_slot < 0)
    return;
  const auto actor = parts_->system.get().spawn(standard_input, &parts_->input);
  parts_->input.start([actor](std::string bytes) { caf::anon_send(actor, input_read{std::move(bytes)}); });
  parts_->standard_input = actor;
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

void launcher::expect_slots(const std::map<std::int32_t, std::string>& hosts) {
  for (const auto& [slot, host] : hosts)
    caf::anon_send(parts_->rendezvous, slot_started{slot, host});
}

logger& launcher::log() {
  return parts_->log;
}

void launcher::remove_at_end(const std::string& path) {
  parts_->keeper.remove_at_end(path);
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

std::shared_ptr<const hands> launcher::hands_of() {
  return std::make_shared<hands>(
      real_hands(parts_->system.get(), {&parts_->writer, parts_->agents, parts_->workers,
                                        parts_->caller.get(), parts_->caller_input, parts_->standard_input}));
}

/// The process of a slot runs. Called on the loop.
void launcher::report_process(std::int32_t slot, const std::string& host, std::int32_t process) {
  if (parts_->caller)
    parts_->caller->started(slot, host, process);
  if (slot == parts_->input_slot)
    caf::anon_send(parts_->standard_input, start_atom::value);
}

/// Prints each text once.
std::function<void(const std::string&)> launcher::warner() {
  return [this, told = std::make_shared<std::set<std::string>>()](const std::string& text) {
    if (told->insert(text).second)
      parts_->writer.write(STDERR_FILENO, "farandole: WARNING: " + text + "\n");
  };
}

void launcher::start_gatherer() {
  record_gatherer_spec spec;
  spec.records = parts_->records;
  spec.writer = &parts_->record_files;
  if (parts_->agents)
    spec.agents = caf::actor_cast<record_source_actor>(parts_->agents);
  spec.answer = [rendezvous = parts_->rendezvous](const records_answered& answer) {
    caf::anon_send(rendezvous, answer);
  };
  spec.explain = parts_->explain;
  spec.explained = [rendezvous = parts_->rendezvous](const stall_explained& explanation) {
    caf::anon_send(rendezvous, explanation);
  };
  parts_->gatherer = parts_->system.get().spawn(record_gatherer, spec);
  caf::anon_send(parts_->rendezvous, watch_records{parts_->gatherer});
  caf::anon_send(parts_->rendezvous, watch_stalls{parts_->gatherer});
}

void launcher::gather_records_of_all(std::chrono::seconds longest,
                                     std::function<void(const gathered_records& gathered)> done) {
  if (!parts_->record_folders.empty())
    caf::anon_send(
        parts_->gatherer,
        gather_records{{{}, parts_->record_folders, parts_->records->held()}, longest, std::move(done)});
  else
    done({});
}

std::string launcher::report_gathered(const gathered_records& gathered) {
  if (gathered.outcome.problem)
    parts_->log.warning(not_kept(gathered.outcome.problem));
  if (!gathered.outcome.folder.empty())
    for (const auto& notice : gathered.notices)
      parts_->log.warning(notice);
  return gathered.outcome.folder;
}

void launcher::keep_record(const worker_ending& ending) {
  constexpr std::chrono::seconds longest{10};
  parts_->records->ended(ending);
  if (!ending.lost)
    return;
  gather_records_of_all(longest, [this, slot = ending.slot](const gathered_records& gathered) {
    const auto folder = report_gathered(gathered);
    if (!folder.empty())
      parts_->writer.write(STDERR_FILENO, "farandole: what each rank was doing when worker " +
                                              std::to_string(slot) + " was lost: farandole explain " +
                                              folder + "\n");
  });
}

void launcher::keep_records(int code) {
  print_line_of([this](const line_receiver& give) {
    caf::anon_send(
        parts_->gatherer,
        finish_traces{parts_->record_folders, longest_for_hosts, [this, give](const auto& gathered) {
                        const auto folder = report_gathered(gathered);
                        give(folder.empty() ? ""
                                            : "farandole: the trace of the job: farandole trace merge "
                                              "--output trace.json " +
                                                  folder + "\n");
                      }});
  });
  print_line_of([this, code](const line_receiver& give) {
    if (code == 0)
      return caf::anon_send(parts_->gatherer, wait_for_gatherings{[give] { give(""); }});
    gather_records_of_all(longest_for_hosts, [this, give](const gathered_records& gathered) {
      const auto folder = report_gathered(gathered);
      give(folder.empty() ? "" : "farandole: what each rank was doing: farandole explain " + folder + "\n");
    });
  });
}

// If the disk does not answer, the destructor waits for it, while a signal can end this process.
void launcher::print_line_of(const std::function<void(const line_receiver& give)>& request) {
  const auto line = std::make_shared<std::promise<std::string>>();
  auto promised = line->get_future();
  request([line](const std::string& text) { line->set_value(text); });
  if (promised.wait_for(longest_for_hosts + longest_for_disk) == std::future_status::ready)
    parts_->writer.write(STDERR_FILENO, promised.get());
  else
    parts_->log.warning(not_kept({error_kind::timed_out, "the disk did not answer within 10 s"}));
}

int launcher::run(std::vector<slot_spec> slots) {
  const job_duration duration(parts_->log);
  const auto warn = warner();
  const auto size = slots.size();
  std::size_t started = 0; // accessed only on the loop; this function returns after the last access
  for (auto& slot : slots) {
    slot.process.keeper = &parts_->keeper;
    slot.warn = warn;
    if (slot.agent.empty())
      parts_->records->give(slot.slot, slot.process);
    slot.started = [&, rank = slot.slot, host = slot.host](pid_t process) {
      parts_->records->started(rank, process);
      report_process(rank, host, process);
      parts_->log.debug("rank " + std::to_string(rank) + " started as process " + std::to_string(process));
      if (++started == size)
        parts_->log.info(size == 1 ? "1 rank started" : "all " + std::to_string(size) + " ranks started");
    };
  }
  host_driver_spec spec;
  spec.hands = hands_of();
  spec.slots = std::move(slots);
  spec.times = job_ending::times::of(parts_->values);
  spec.slot_exited = exit_reporter(parts_->rendezvous, parts_->caller.get());
  spec.worker_ended = [this](const worker_ending& ending) { keep_record(ending); };
  if (parts_->caller)
    spec.slot_complete = [caller = parts_->caller.get()](std::int32_t slot) { caller->complete(slot); };
  spec.finished = parts_->watch.finished();
  const auto driver = parts_->system.get().spawn(host_driver, spec);
  caf::anon_send(parts_->rendezvous, watch_fates{driver});
  start_gatherer();
  caf::anon_send(driver, start_atom::value);
  const auto code = parts_->watch.wait_for(driver);
  keep_records(code);
  return duration.ended(code);
}

int launcher::run(const elastic_job& job) {
  const job_duration duration(parts_->log);
  elastic_driver_spec spec;
  spec.hands = hands_of();
  spec.scheduler = job.scheduler;
  spec.hosts = job.hosts;
  if (!job.script.empty()) {
    spec.script.emplace();
    spec.script->name = job.script;
    spec.script->script.arguments = {job.script};
    if (::access(job.script.c_str(), X_OK) != 0)
      spec.script->script.arguments.insert(spec.script->script.arguments.begin(), {"/bin/sh", "-c"});
    spec.script->script.environment = own_environment();
    spec.script->script.keeper = &parts_->keeper;
    spec.script->slots_per_host = job.slots_per_host;
    spec.script->timeout = parts_->values.duration(setting::discovery_timeout);
    spec.script->is_remote = job.is_remote;
    spec.script->interval = parts_->values.duration(setting::discovery_interval);
  }
  spec.times = job_ending::times::of(parts_->values);
  spec.seed = std::random_device{}();
  const auto rendezvous = parts_->rendezvous;
  spec.first_agents = job.first_agents;
  spec.slot_for = [&, rendezvous, warn = warner()](const worker_scheduler::start& start,
                                                   const agent_hello* agent) {
    caf::anon_send(rendezvous, slot_started{start.slot, start.host});
    auto slot = job.slot_for(start, agent);
    if (slot) {
      slot->process.keeper = &parts_->keeper;
      slot->warn = warn;
      parts_->records->forget_ended();
      if (slot->agent.empty())
        parts_->records->give(slot->slot, slot->process);
      slot->started = [this, start](pid_t process) {
        parts_->records->started(start.slot, process);
        report_process(start.slot, start.host, process);
        parts_->log.info("worker " + std::to_string(start.slot) + " started on " + start.host +
                         " as process " + std::to_string(process));
      };
    }
    return slot;
  };
  spec.slot_exited = exit_reporter(parts_->rendezvous, parts_->caller.get());
  spec.worker_ended = [this](const worker_ending& ending) { keep_record(ending); };
  if (parts_->caller)
    spec.slot_complete = [caller = parts_->caller.get()](std::int32_t slot) { caller->complete(slot); };
  spec.timed_out = parts_->timeout_reporter();
  spec.finished = parts_->watch.finished();
  spec.slot_retired = [rendezvous, caller = parts_->caller.get()](std::int32_t slot) {
    caf::anon_send(rendezvous, slot_retired{slot});
    if (caller)
      caller->retired(slot);
  };
  spec.no_more_starts = [rendezvous] { caf::anon_send(rendezvous, no_more_starts{}); };
  spec.answer_drain = [rendezvous](const drain_answered& answer) { caf::anon_send(rendezvous, answer); };
  spec.failed = parts_->failed;
  spec.hosts_failed = [rendezvous](std::vector<failed_host> hosts) {
    caf::anon_send(rendezvous, hosts_failed{std::move(hosts)});
  };
  const auto driver = parts_->system.get().spawn(elastic_driver, spec);
  if (parts_->caller_input && job.scheduler.serves_calls)
    caf::anon_send(parts_->caller_input, watch_size{driver, job.most_workers});
  caf::anon_send(rendezvous, watch_generations{driver});
  caf::anon_send(rendezvous, watch_fates{driver});
  start_gatherer();
  caf::anon_send(driver, start_atom::value);
  const auto code = parts_->watch.wait_for(driver);
  keep_records(code);
  // Clear the blacklist in the journal: the job has ended, and the next one that uses the journal is another job.
  caf::anon_send(rendezvous, hosts_failed{});
  return duration.ended(code);
}

} // namespace farandole
