#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "actors/member/member_runtime.hpp"
#include "actors/process_set/injected_fault.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "bindings/cxx/runtime.hpp"
#include "bindings/cxx/setting_warnings.hpp"
#include "collectives/transport/mpi/mpi_library.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/join_retry.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

error forked_error() {
  return {error_kind::precondition,
          "this process was forked from a member of a Farandole job and is not a member itself; "
          "communicate in the parent, or start the process with the 'spawn' method"};
}

namespace {

environment_lookup lookup_for(const options& options) {
  auto beneath = options.read_environment ? process_environment() : environment_lookup{};
  return [given = options.settings, beneath](std::string_view name) -> std::optional<std::string> {
    if (auto found = given.find(std::string(name)); found != given.end())
      return found->second;
    return beneath ? beneath(name) : std::nullopt;
  };
}

// Fault injection is for tests only.
expected<injected_faults> faults_of(const environment_lookup& lookup) {
  auto wanted = lookup("FARANDOLE_TEST_FAULT");
  if (!wanted || wanted->empty())
    return injected_faults{};
  if (lookup("FARANDOLE_TESTING").value_or("") != "1")
    return error{
        error_kind::precondition,
        "FARANDOLE_TEST_FAULT is for tests of Farandole itself; unset it, or set FARANDOLE_TESTING=1"};
  return read_faults(*wanted);
}

using clock = std::chrono::steady_clock;

error refuse(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

// Whether the member may start although its process sets could not be created. A job that others have left already
// has been joined all the same; the first operation reports that it is over. If the job is elastic and a member was
// lost, the process tries to join again.
bool may_do_without(const set_change& sets, const error& reason, bool elastic) {
  if (elastic && reason.kind == error_kind::disconnected)
    return false;
  return sets.sets.empty() && reason.kind != error_kind::invalid_argument &&
         reason.kind != error_kind::timed_out;
}

// Checks the limits and sorts the ranks, so that the sets can be sent. Wrong ranks are reported later, to all
// members.
error put_in_form(std::vector<std::vector<std::int32_t>>& sets, std::size_t more = 0) {
  if (sets.size() + more > set_limit)
    return refuse("there can be at most " + std::to_string(set_limit) + " process sets");
  for (auto& ranks : sets) {
    if (ranks.size() > static_cast<std::size_t>(member_limit))
      return refuse("a process set can have at most " + std::to_string(member_limit) + " ranks");
    std::sort(ranks.begin(), ranks.end());
  }
  return {};
}

/// The submission queue for operations of a set.
expected<std::shared_ptr<submission_queue>> queue_for(member_runtime& member, const submission& request) {
  if (!member.is_local())
    return forked_error();
  if (auto problem = member.check_loop())
    return problem;
  auto found = member.queue(request.set);
  if (!found)
    return error{found.error().kind, std::string(request.name) + ": " + found.error().text};
  return found;
}

/// The error if process sets cannot be changed after the start; none if they can.
error fixed_sets(const member_runtime& member) {
  if (!member.is_local() || member.shared_state().dynamic_sets)
    return {};
  return refuse("process sets can be added and removed only if HOROVOD_DYNAMIC_PROCESS_SETS=1 is set "
                "before init(), or with init(process_sets=\"dynamic\")");
}

// Takes as long as the other members need to request the change; like any operation, it ends with the generation if
// they never do.
expected<std::vector<std::uint32_t>> change_sets(member_runtime& member, const set_change& change,
                                                 clock::time_point deadline) {
  if (!member.is_local())
    return forked_error();
  if (auto problem = member.check_loop())
    return problem;
  member.reap();
  auto operation = member.queue().submit(change);
  if (!operation)
    return operation.error();
  const handle asked(operation->release(), member.mark());
  if (auto problem = asked.wait(deadline))
    return problem;
  return asked.result().sets;
}

// Creates the initial process sets. `lists`: those that init() gave by ranks, checked and sorted. Every member states
// the sets that it wants, even if there are none, so that members that differ are detected.
error create_initial_sets(member_runtime& member, std::vector<std::vector<std::int32_t>> lists,
                          const std::vector<set_rule>& rules, clock::time_point deadline) {
  auto& shared_state = member.shared_state();
  welcome greeting;
  greeting.members = shared_state.members;
  greeting.sets_kept = shared_state.sets_kept;
  greeting.sets = shared_state.kept;
  auto wanted = farandole::create_initial_sets(greeting, {lists, rules});
  if (!wanted)
    return wanted.error();
  // If every member gave only lists, the leader may assign the ids, which come out the same.
  if (!shared_state.elastic && !shared_state.sets_kept && rules.empty())
    wanted->change = {set_change_kind::create, 0, std::move(lists)};
  const auto created = change_sets(member, wanted->change, deadline);
  if (!created && !may_do_without(wanted->change, created.error(), shared_state.elastic))
    return created.error();
  member.known_sets().begin(std::move(wanted->sets));
  return {};
}

} // namespace

runtime::runtime(std::unique_ptr<member_runtime> started) : member_(std::move(started)) {}
runtime::~runtime() {
  // A forked child has no threads to join and no sockets to close: they belong to the parent.
  if (!member_->is_local())
    static_cast<void>(member_.release());
}

expected<std::unique_ptr<runtime>> runtime::start(const options& options) {
  auto lists = options.process_sets;
  if (auto problem = put_in_form(lists, options.set_rules.size()))
    return problem;
  const auto lookup = lookup_for(options);
  auto values = settings::load({lookup, {}, {}});
  if (!values)
    return values.error();
  auto secret = options.secret.empty() ? job_secret(*values) : expected<std::string>(options.secret);
  if (!secret)
    return secret.error();
  if (auto problem =
          options.secret.empty() ? error{} : check_secret(options.secret, "the options of this job"))
    return problem;
  auto faults = faults_of(lookup);
  if (!faults)
    return faults.error();
  const bool elastic = values->flag(setting::elastic);
  const auto patience = join_timeout(*values);
  member_start wanted;
  wanted.secret = *secret;
  wanted.mpi = {options.mpi_ranks, find_foreign_launch(lookup)};
  wanted.faults = std::move(*faults);
  wanted.progress = options.progress;
  wanted.sets_before = options.sets_before;
  wanted.state_generation = options.state_generation;
  *wanted.epoch = options.epoch;
  wanted.deadline = std::make_shared<join_deadline>(elastic, values->duration(patience), clock::now());
  join_retry tries(elastic, wanted.deadline, values->cited(patience));
  std::minstd_rand chance(std::random_device{}());
  for (;;) {
    auto started = start_once(*values, wanted, lists, options.set_rules, tries);
    if (started) {
      logger log(log_options_of(*values));
      for (const auto& line : setting_warnings(*values, options, (*started)->rank()))
        log.warning(line);
      return started;
    }
    if (auto problem = tries.after(started.error(), clock::now()))
      return problem;
    logger(log_options_of(*values))
        .warning("members changed before all had come together, and this process tries again: " +
                 started.error().text);
    std::this_thread::sleep_for(tries.delay(clock::now(), std::uniform_real_distribution(0.0, 1.0)(chance)));
  }
}

expected<std::unique_ptr<runtime>> runtime::start_once(const settings& values, const member_start& wanted,
                                                       const std::vector<std::vector<std::int32_t>>& lists,
                                                       const std::vector<set_rule>& rules,
                                                       const join_retry& tries) {
  auto member = member_runtime::start(values, wanted);
  if (!member)
    return member.error();
  std::unique_ptr<runtime> started(new runtime(std::move(*member)));
  // A late process may have waited for a long time until the other members committed, so the time counts from now.
  const auto deadline = tries.founding_until(clock::now(), values.duration(setting::start_timeout));
  if (auto problem = create_initial_sets(*started->member_, lists, rules, deadline))
    return problem;
  return started;
}

void runtime::shutdown(departure manner) {
  if (member_->is_local())
    member_->shutdown(std::move(manner));
}

bool runtime::alive() const {
  return member_->is_local() && member_->alive();
}
bool runtime::usable_here() const {
  return member_->is_local();
}

std::int32_t runtime::rank() const {
  return member_->self().rank;
}
std::int32_t runtime::size() const {
  return static_cast<std::int32_t>(member_->shared_state().members.size());
}
std::int32_t runtime::local_rank() const {
  return member_->self().local_rank;
}
std::int32_t runtime::local_size() const {
  return member_->self().local_size;
}
std::int32_t runtime::cross_rank() const {
  return member_->self().cross_rank;
}
std::int32_t runtime::cross_size() const {
  return member_->self().cross_size;
}

std::uint64_t runtime::epoch() const {
  return member_->epoch();
}
std::uint64_t runtime::generation() const {
  return member_->shared_state().generation;
}
std::string runtime::object_key() const {
  return member_->shared_state().object_key;
}
bool runtime::must_sync() const {
  return member_->shared_state().must_sync;
}
bool runtime::joined_late() const {
  return member_->shared_state().joined_late;
}
std::pair<std::uint64_t, bool> runtime::membership_change() const {
  return usable_here() ? member_->membership_change() : std::pair<std::uint64_t, bool>{};
}
void runtime::withdraw() {
  if (usable_here())
    member_->withdraw();
}

void runtime::await_loop(bool late) {
  member_->await_loop(late);
}
void runtime::enter_loop() {
  member_->enter_loop();
}

error runtime::start_timeline(const std::string& path, bool mark_cycles) {
  return usable_here() ? member_->start_timeline(path, mark_cycles) : forked_error();
}
error runtime::stop_timeline() {
  if (!usable_here())
    return forked_error();
  member_->stop_timeline();
  return {};
}

error runtime::mark_step() {
  if (!usable_here())
    return forked_error();
  member_->mark_step();
  return {};
}

error runtime::wait_for_devices(const std::function<bool()>& interrupted) const {
  return usable_here() ? member_->shared_state().device_ledger->wait(interrupted) : forked_error();
}

expected<std::pair<std::string, bool>> runtime::next_stall(clock::time_point deadline) {
  if (!usable_here())
    return forked_error();
  auto report = member_->stalls().next(deadline);
  if (!report)
    return report.error();
  return std::pair(std::move(report->text), report->over);
}

bool runtime::has_mpi() const {
  return member_->mpi() != nullptr || (member_->pmi() != nullptr && mpi_is_installed());
}
bool runtime::mpi_threads() const {
  if (member_->mpi() != nullptr)
    return member_->mpi()->threads();
  return has_mpi() && member_->pmi()->mpi_threads();
}
bool runtime::mpi_is_installed() {
  return farandole::mpi_is_installed();
}

bool runtime::is_homogeneous() const {
  auto& members = member_->shared_state().members;
  for (auto& member : members)
    if (member.local_size != members.front().local_size)
      return false;
  return true;
}

expected<handle> runtime::submit(const submission& request) {
  auto queue = queue_for(*member_, request);
  if (!queue)
    return queue.error();
  auto operation = (*queue)->submit(request);
  if (!operation)
    return operation.error();
  return handle(operation->release(), member_->mark());
}

expected<std::vector<handle>> runtime::submit_group(std::span<const submission> requests) {
  if (requests.empty())
    return std::vector<handle>{};
  auto queue = queue_for(*member_, requests.front());
  if (!queue)
    return queue.error();
  for (auto& request : requests)
    if (request.set != requests.front().set)
      return refuse(std::string(request.name) + ": the tensors of a group are in one process set");
  auto operations = (*queue)->submit_group(requests);
  if (!operations)
    return operations.error();
  std::vector<handle> handles;
  for (auto& operation : *operations)
    handles.emplace_back(operation.release(), member_->mark());
  return handles;
}

std::uint64_t runtime::failures(std::uint32_t set, std::string_view name) const {
  if (!member_->is_local())
    return 0;
  const auto queue = member_->queue(set);
  return queue ? (*queue)->failures(name) : 0;
}

expected<std::uint32_t> runtime::add_process_set(std::vector<std::int32_t> ranks) {
  set_change wanted{set_change_kind::add, 0, {std::move(ranks)}};
  if (auto problem = put_in_form(wanted.sets))
    return problem;
  if (auto problem = fixed_sets(*member_))
    return problem;
  auto started = change_sets(*member_, wanted, clock::time_point::max());
  if (!started)
    return started.error();
  member_->known_sets().added(generation(), started->front(), std::move(wanted.sets.front()));
  return started->front();
}

error runtime::remove_process_set(std::uint32_t set) {
  if (auto problem = fixed_sets(*member_))
    return problem;
  auto done = change_sets(*member_, {set_change_kind::remove, set, {}}, clock::time_point::max());
  if (!done)
    return done.error();
  member_->known_sets().removed(set);
  return {};
}

std::uint64_t runtime::process_set_epoch(std::uint32_t set) const {
  return member_->is_local() ? member_->shared_state().sets.epoch_seen(set) : 0;
}

std::uint64_t runtime::joins() const {
  return member_->is_local() ? member_->queue().joins() : 0;
}

error runtime::acknowledge_restart(std::uint32_t set, std::uint64_t epoch) {
  if (!member_->is_local())
    return forked_error();
  if (member_->acknowledge_restart(set, epoch))
    return {};
  return refuse("process set " + std::to_string(set) + " has not been restarted " + std::to_string(epoch) +
                " times on this rank");
}

std::map<std::uint32_t, std::uint64_t> runtime::submitted() const {
  if (!member_->is_local())
    return {};
  auto counts = member_->shared_state().sets.submitted();
  counts[0] = member_->queue().submitted();
  return counts;
}

std::vector<kept_set> runtime::kept_sets() const {
  return member_->known_sets().to_keep(member_->shared_state().members);
}

std::vector<std::int32_t> runtime::slots() const {
  std::vector<std::int32_t> all;
  for (auto& member : member_->shared_state().members)
    all.push_back(member.slot);
  return all;
}

std::map<std::uint32_t, std::vector<std::int32_t>> runtime::process_sets() const {
  if (!member_->is_local())
    return {};
  auto& shared_state = member_->shared_state();
  auto all = shared_state.sets.ranks();
  for (auto& member : shared_state.members)
    all[0].push_back(member.rank);
  return all;
}

runtime::counters runtime::count() const {
  counters current;
  if (!member_->is_local())
    return current;
  auto& member = *member_;
  current.submitted = member.queue().submitted();
  current.on_fast_path = member.queue().on_fast_path();
  current.bundles = member.shared_state().bundles;
  current.bytes_moved = member.shared_state().bytes_moved;
  current.by_nccl = member.shared_state().device_ledger->dependent();
  current.loop_wakeups = member.loop_wakeups();
  return current;
}

} // namespace farandole
