#include "tests/world/elastic_service.hpp"

#include <algorithm>
#include <utility>

#include "actors/launch/remote_rendezvous.hpp"
#include "actors/rendezvous/rendezvous.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t service_stream = 408;
constexpr const char* first_journal = "journal";
constexpr std::chrono::seconds time_to_close{10};

} // namespace

elastic_service::elastic_service(elastic_stage& stage)
    : stage_(stage), draw_(stage.options.seed, service_stream), disk_(stage.options.seed) {
  stage_.rendezvous_ip = apart() ? "10.1.0.1" : simulated_net::address_of(launcher_process);
  begin(first_journal);
  if (apart())
    call_from_launcher();
  else
    for_launcher_ = lives_.at(launcher_process).actor;
}

void elastic_service::close() {
  stopped_ = true;
  disk_.at_call(0, {});
  caf::anon_send(for_launcher_, close_atom::value);
  for (const auto& [number, life] : lives_)
    if (life.runs)
      caf::anon_send(life.actor, close_atom::value);
}

void elastic_service::take_down() {
  caf::anon_send_exit(std::exchange(for_launcher_, nullptr), caf::exit_reason::kill);
  for (auto& [number, life] : lives_)
    caf::anon_send_exit(std::exchange(life.actor, nullptr), caf::exit_reason::kill);
  if (disk_.refused() && !warned_at_all_)
    stage_.log.problem("the journal could not be written, but no rendezvous logged a warning");
}

void elastic_service::call_from_launcher() {
  remote_rendezvous_spec spec;
  spec.ip = stage_.rendezvous_ip;
  spec.port = stage_.rendezvous_port;
  spec.links.simulated = stage_.net.links_of(launcher_process);
  spec.job = draw_.next() | 1U;
  spec.patience = stage_.values.duration(setting::rendezvous_timeout);
  spec.patience_setting = stage_.values.cited(setting::rendezvous_timeout);
  logs_.push_back(std::make_unique<logger>(
      log_options{log_level::warning, true}, [this](log_level level, std::string_view line) {
        if (level >= log_level::error)
          user_messages_.emplace_back(line);
        stage_.log.note([&] { return "launcher: " + std::string(line); });
      }));
  spec.log = logs_.back().get();
  const running_process scope(stage_.world.all_processes(), launcher_process);
  for_launcher_ = caf::actor_cast<caf::actor>(start_remote_rendezvous(stage_.system, spec));
}

// ---- lives ---------------------------------------------------------------------------------------

void elastic_service::begin(const std::string& journal_path) {
  const auto rank = apart() ? -1 - static_cast<process_id>(lives_.size()) : launcher_process;
  rendezvous_options options;
  options.members = {stage_.options.processes, true, stage_.options.fewest, stage_.options.limit};
  options.settings = stage_.values;
  options.links.simulated = stage_.net.links_of(rank);
  options.bind_ips = {stage_.rendezvous_ip};
  options.port = stage_.rendezvous_port;
  options.apart = apart();
  options.draw = static_cast<std::uint32_t>(draw_.next());
  logs_.push_back(std::make_unique<logger>(
      log_options{log_level::warning, true},
      [this, rank](log_level, std::string_view line) { record_line(rank, std::string(line)); }));
  options.log = logs_.back().get();
  options.stepped_down = [this, rank] { stepped_down(rank); };
  auto& entry = lives_[rank];
  entry.journal_path = journal_path;
  std::optional<job_image> found;
  if (apart()) {
    auto book = journal::open(journal_path, disk_.of(rank));
    if (!book)
      return stage_.log.problem("a rendezvous cannot start: " + book.error().text);
    options.journal = std::move(*book);
    found = options.journal->found();
    if (const auto& repaired = options.journal->repaired(); !repaired.empty())
      record_line(rank, repaired);
  }
  entry.epoch = next_epoch(found ? found->epoch : 0, options.draw);
  const running_process scope(stage_.world.all_processes(), rank);
  stage_.log.note([&] { return "a rendezvous starts with epoch " + epoch_text(entry.epoch); });
  const auto service = start_rendezvous(stage_.system, options);
  if (!service)
    return stage_.log.problem("a rendezvous cannot start: " + service.error().text);
  entry.actor = caf::actor_cast<caf::actor>(service->actor);
  stage_.rendezvous_port = service->port;
  latest_ = rank;
  if (lives_.size() > 1)
    gives_up_at_ = now() + stage_.values.duration(setting::regroup_timeout);
  // The process may have ended during its start.
  if (!entry.runs)
    caf::anon_send_exit(entry.actor, caf::exit_reason::kill);
}

// Its last messages are still sent.
void elastic_service::stepped_down(process_id process) {
  if (!had_two_)
    stage_.log.problem("a rendezvous steps down, although no other one has run");
  stage_.system.spawn([this, process](caf::event_based_actor* self) {
    self->delayed_send(self, time_to_close, tick_atom::value);
    return caf::behavior{[=, this](tick_atom) {
      end(process);
      self->quit();
    }};
  });
}

void elastic_service::record_line(process_id process, const std::string& line) {
  stage_.log.note([&] { return "rendezvous: " + line; });
  if (line.find("the journal cannot be written") == std::string::npos)
    return;
  warned_at_all_ = true;
  if (!warned_.insert(process).second)
    stage_.log.problem("a rendezvous logs more than one warning that the journal cannot be written");
}

std::size_t elastic_service::running() const {
  return static_cast<std::size_t>(
      std::count_if(lives_.begin(), lives_.end(), [](const auto& entry) { return entry.second.runs; }));
}

void elastic_service::end(process_id process) {
  auto& life = lives_.at(process);
  if (!std::exchange(life.runs, false))
    return;
  stage_.log.note([&] { return "the rendezvous of epoch " + epoch_text(life.epoch) + " has ended"; });
  stage_.log.rendezvous_ended();
  stage_.net.end_process(process);
  disk_.end_process(process);
  caf::anon_send_exit(life.actor, caf::exit_reason::kill);
}

void elastic_service::end(bool machine) {
  disk_.at_call(0, {});
  for (const auto& [number, life] : lives_)
    end(number);
  if (machine)
    disk_.end_machine();
}

void elastic_service::start() {
  if (!stopped_ && running() == 0)
    begin(lives_.at(latest_).journal_path);
}

void elastic_service::start_second() {
  if (stopped_ || running() != 1)
    return;
  had_two_ = true;
  stage_.log.rendezvous_doubled();
  const auto copy = std::string(first_journal) + "." + std::to_string(lives_.size());
  disk_.copy(lives_.at(latest_).journal_path, copy);
  begin(copy);
}

void elastic_service::end_lower() {
  for (const auto& [number, life] : lives_)
    if (life.epoch < lives_.at(latest_).epoch)
      end(number);
}

void elastic_service::fill_disk(bool full) {
  disk_.at_call(0, {});
  warned_.clear();
  disk_.fill(full);
}

// ---- the journal ---------------------------------------------------------------------------------

void elastic_service::sends(process_id process, const welcome& greeting) {
  if (!apart() || disk_.behind())
    return;
  const auto saved = replay(disk_.synced_bytes(lives_.at(process).journal_path));
  if (saved && saved->damage)
    return stage_.log.problem("an intact journal is reported as damaged: " + saved->damage->reason);
  if (!saved || !saved->job)
    return stage_.log.problem("generation " + std::to_string(greeting.generation) +
                              " was announced, but the disk holds no journal: " +
                              (saved ? std::string("it is empty") : saved.error().text));
  if (saved->job->generation < greeting.generation || saved->job->epoch != greeting.epoch)
    stage_.log.problem("generation " + std::to_string(greeting.generation) + " of epoch " +
                       epoch_text(greeting.epoch) +
                       " was announced, but the last generation in the journal is " +
                       std::to_string(saved->job->generation) + " of epoch " + epoch_text(saved->job->epoch));
}

} // namespace farandole::testing
