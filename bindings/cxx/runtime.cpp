#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>

#include "actors/job_secret.hpp"
#include "actors/member_runtime.hpp"
#include "actors/set/injected_fault.hpp"
#include "actors/this_host.hpp"
#include "bindings/cxx/birth_mark.hpp"
#include "bindings/cxx/farandole.hpp"
#include "bindings/cxx/known_sets.hpp"
#include "bindings/cxx/setting_warnings.hpp"
#include "collectives/paths/mpi/mpi_library.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/start_tries.hpp"
#include "messages/membership.hpp"
#include "messages/set_change.hpp"

namespace farandole {

namespace {

error in_child() {
  return {error_kind::precondition,
          "this process was forked from one that runs Farandole; only the parent may use it "
          "(start processes with spawn, or call init() before the fork in neither)"};
}

environment_lookup lookup_for(const options& how) {
  auto beneath = how.read_environment ? process_environment() : environment_lookup{};
  return [given = how.settings, beneath](std::string_view name) -> std::optional<std::string> {
    if (auto found = given.find(std::string(name)); found != given.end())
      return found->second;
    return beneath ? beneath(name) : std::nullopt;
  };
}

// Only tests may ask for faults.
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

// A job that others have left already has been joined all the same; the first operation says that it is over.
// Where members may change, one that was lost means another try.
bool may_do_without(const set_change& sets, const error& why, bool elastic) {
  if (elastic && why.kind == error_kind::disconnected)
    return false;
  return sets.sets.empty() && why.kind != error_kind::invalid_argument && why.kind != error_kind::timed_out;
}

// As it may travel; what is wrong with the ranks is for all members to hear.
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

} // namespace

class runtime::state {
public:
  explicit state(std::unique_ptr<member_runtime> started) : member(std::move(started)) {}
  ~state() {
    // In a forked child there are no threads to join and no sockets to close: they are the parent's.
    if (!mark.here())
      static_cast<void>(member.release());
  }

  /// Where operations of a set go in.
  expected<std::shared_ptr<door>> door_for(const submission& what) const {
    if (!mark.here())
      return in_child();
    auto found = member->door(what.set);
    if (!found)
      return error{found.error().kind, std::string(what.name) + ": " + found.error().text};
    return found;
  }

  /// Why sets cannot be changed after the start, if so.
  error fixed_sets() const {
    if (!mark.here() || member->standing().dynamic_sets)
      return {};
    return refuse("process sets can be added and removed only if HOROVOD_DYNAMIC_PROCESS_SETS=1 is set "
                  "before init(), or with init(process_sets=\"dynamic\")");
  }

  expected<std::vector<std::uint32_t>> change_sets(const set_change& what, clock::time_point until) const;

  /// The sets of the start; `lists` are those of init() by ranks, in form.
  error found_sets(std::vector<std::vector<std::int32_t>> lists, const std::vector<set_rule>& rules,
                   clock::time_point until);

  birth_mark mark;
  std::unique_ptr<member_runtime> member;
  known_sets known;
};

runtime::runtime(std::unique_ptr<state> built) : state_(std::move(built)) {}
runtime::~runtime() = default;

// Waits as long as it takes, like any operation: it ends with the generation if others never ask.
expected<std::vector<std::uint32_t>> runtime::state::change_sets(const set_change& what,
                                                                 clock::time_point until) const {
  if (!mark.here())
    return in_child();
  member->reap();
  auto operation = member->door().submit(what);
  if (!operation)
    return operation.error();
  const handle asked(operation->release());
  if (auto problem = asked.wait(until))
    return problem;
  return asked.result().sets;
}

// Every member says which sets it wants, if only none: so members that differ find out.
error runtime::state::found_sets(std::vector<std::vector<std::int32_t>> lists,
                                 const std::vector<set_rule>& rules, clock::time_point until) {
  auto& place = member->standing();
  welcome told;
  told.members = place.members;
  told.sets_kept = place.sets_kept;
  told.sets = place.kept;
  auto wanted = farandole::found_sets(told, {lists, rules});
  if (!wanted)
    return wanted.error();
  // Where nothing but lists was given on any member, the leader may give the ids, which are the same.
  if (!place.elastic && !place.sets_kept && rules.empty())
    wanted->change = {set_change_kind::found, 0, std::move(lists)};
  const auto founded = change_sets(wanted->change, until);
  if (!founded && !may_do_without(wanted->change, founded.error(), place.elastic))
    return founded.error();
  known.begin(std::move(wanted->sets));
  return {};
}

expected<std::unique_ptr<runtime>> runtime::start(const options& how) {
  auto lists = how.process_sets;
  if (auto problem = put_in_form(lists, how.set_rules.size()))
    return problem;
  const auto lookup = lookup_for(how);
  auto values = settings::load({lookup, {}, {}});
  if (!values)
    return values.error();
  auto secret = how.secret.empty() ? job_secret(*values) : expected<std::string>(how.secret);
  if (!secret)
    return secret.error();
  if (auto problem = how.secret.empty() ? error{} : check_secret(how.secret, "the options of this job"))
    return problem;
  auto faults = faults_of(lookup);
  if (!faults)
    return faults.error();
  const bool elastic = values->flag(setting::elastic);
  const auto patience = elastic ? setting::elastic_timeout : setting::start_timeout;
  member_start wanted;
  wanted.secret = *secret;
  wanted.mpi = {how.mpi_ranks, find_foreign_launch(lookup)};
  wanted.faults = std::move(*faults);
  wanted.progress = how.progress;
  wanted.sets_before = how.sets_before;
  wanted.state_generation = how.state_generation;
  *wanted.epoch = how.epoch;
  wanted.deadline = std::make_shared<join_deadline>(elastic, values->duration(patience), clock::now());
  start_tries tries(elastic, wanted.deadline, values->cited(patience));
  std::minstd_rand chance(std::random_device{}());
  for (;;) {
    auto started = start_once(*values, wanted, lists, how.set_rules, tries);
    if (started) {
      logger log(log_options_of(*values));
      for (const auto& line : setting_warnings(*values, how, (*started)->rank()))
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
                                                       const start_tries& tries) {
  auto member = member_runtime::start(values, wanted);
  if (!member)
    return member.error();
  std::unique_ptr<runtime> started(new runtime(std::make_unique<state>(std::move(*member))));
  // A late process may have waited long for the others' commit, so the time counts from now.
  const auto until = tries.founding_until(clock::now(), values.duration(setting::start_timeout));
  if (auto problem = started->state_->found_sets(lists, rules, until))
    return problem;
  return started;
}

void runtime::shutdown(departure how) {
  if (state_->mark.here())
    state_->member->shutdown(std::move(how));
}

bool runtime::alive() const {
  return state_->mark.here() && state_->member->alive();
}
bool runtime::usable_here() const {
  return state_->mark.here();
}

std::int32_t runtime::rank() const {
  return state_->member->self().rank;
}
std::int32_t runtime::size() const {
  return static_cast<std::int32_t>(state_->member->standing().members.size());
}
std::int32_t runtime::local_rank() const {
  return state_->member->self().local_rank;
}
std::int32_t runtime::local_size() const {
  return state_->member->self().local_size;
}
std::int32_t runtime::cross_rank() const {
  return state_->member->self().cross_rank;
}
std::int32_t runtime::cross_size() const {
  return state_->member->self().cross_size;
}

std::uint64_t runtime::epoch() const {
  return state_->member->epoch();
}
std::uint64_t runtime::generation() const {
  return state_->member->standing().generation;
}
std::string runtime::object_key() const {
  return state_->member->standing().object_key;
}
bool runtime::must_sync() const {
  return state_->member->standing().must_sync;
}
bool runtime::joined_late() const {
  return state_->member->standing().joined_late;
}
std::pair<std::uint64_t, bool> runtime::membership_change() const {
  return usable_here() ? state_->member->membership_change() : std::pair<std::uint64_t, bool>{};
}
void runtime::withdraw() {
  if (usable_here())
    state_->member->withdraw();
}

bool runtime::has_mpi() const {
  return state_->member->mpi() != nullptr;
}
bool runtime::mpi_threads() const {
  return has_mpi() && state_->member->mpi()->threads();
}
bool runtime::mpi_is_installed() {
  return farandole::mpi_is_installed();
}

bool runtime::is_homogeneous() const {
  auto& members = state_->member->standing().members;
  for (auto& one : members)
    if (one.local_size != members.front().local_size)
      return false;
  return true;
}

expected<handle> runtime::submit(const submission& what) {
  auto door = state_->door_for(what);
  if (!door)
    return door.error();
  auto operation = (*door)->submit(what);
  if (!operation)
    return operation.error();
  return handle(operation->release());
}

expected<std::vector<handle>> runtime::submit_group(std::span<const submission> what) {
  if (what.empty())
    return std::vector<handle>{};
  auto door = state_->door_for(what.front());
  if (!door)
    return door.error();
  for (auto& one : what)
    if (one.set != what.front().set)
      return refuse(std::string(one.name) + ": the tensors of a group are in one process set");
  auto operations = (*door)->submit_group(what);
  if (!operations)
    return operations.error();
  std::vector<handle> handles;
  for (auto& operation : *operations)
    handles.emplace_back(operation.release());
  return handles;
}

expected<std::uint32_t> runtime::add_process_set(std::vector<std::int32_t> ranks) {
  set_change wanted{set_change_kind::add, 0, {std::move(ranks)}};
  if (auto problem = put_in_form(wanted.sets))
    return problem;
  if (auto problem = state_->fixed_sets())
    return problem;
  auto started = state_->change_sets(wanted, clock::time_point::max());
  if (!started)
    return started.error();
  state_->known.added(generation(), started->front(), std::move(wanted.sets.front()));
  return started->front();
}

error runtime::remove_process_set(std::uint32_t set) {
  if (auto problem = state_->fixed_sets())
    return problem;
  auto done = state_->change_sets({set_change_kind::remove, set, {}}, clock::time_point::max());
  if (!done)
    return done.error();
  state_->known.removed(set);
  return {};
}

std::uint64_t runtime::process_set_epoch(std::uint32_t set) const {
  return state_->mark.here() ? state_->member->standing().sets.epoch_seen(set) : 0;
}

std::uint64_t runtime::joins() const {
  return state_->mark.here() ? state_->member->door().joins() : 0;
}

error runtime::acknowledge_restart(std::uint32_t set, std::uint64_t epoch) {
  if (!state_->mark.here())
    return in_child();
  if (state_->member->acknowledge_restart(set, epoch))
    return {};
  return refuse("process set " + std::to_string(set) + " has not been started anew " + std::to_string(epoch) +
                " times on this rank");
}

std::map<std::uint32_t, std::uint64_t> runtime::submitted() const {
  if (!state_->mark.here())
    return {};
  auto counts = state_->member->standing().sets.submitted();
  counts[0] = state_->member->door().submitted();
  return counts;
}

std::vector<kept_set> runtime::kept_sets() const {
  return state_->known.to_keep(state_->member->standing().members);
}

std::vector<std::int32_t> runtime::slots() const {
  std::vector<std::int32_t> all;
  for (auto& one : state_->member->standing().members)
    all.push_back(one.slot);
  return all;
}

std::map<std::uint32_t, std::vector<std::int32_t>> runtime::process_sets() const {
  if (!state_->mark.here())
    return {};
  auto& place = state_->member->standing();
  auto all = place.sets.ranks();
  for (auto& one : place.members)
    all[0].push_back(one.rank);
  return all;
}

runtime::counters runtime::count() const {
  counters now;
  if (!state_->mark.here())
    return now;
  auto& member = *state_->member;
  now.submitted = member.door().submitted();
  now.on_board = member.door().on_board();
  now.bundles = member.standing().bundles;
  now.bytes_moved = member.standing().bytes_moved;
  now.loop_wakeups = member.loop_wakeups();
  return now;
}

} // namespace farandole
