#include "actors/member/member_runtime.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <future>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/member/member.hpp"
#include "actors/member/member_record.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "actors/submission/nvtx_ranges.hpp"
#include "collectives/negotiation/set_registry.hpp"
#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/mpi/mpi_path.hpp"

namespace farandole {

namespace {

// Maximum time to wait for the answer of the rendezvous. It is asked again at the next commit.
constexpr std::chrono::seconds answer_time{1};

// The value of the timeline setting with which the program starts the timeline itself.
constexpr std::string_view timeline_by_program = "DYNAMIC";

// CAF aborts the process if its loop cannot open a descriptor. So as many descriptors as the loop needs are opened
// and closed first: for CAF's epoll and pipe, for the loop's eventfd and timer, and some spare ones.
error refusal_of_descriptors() {
  std::array<descriptor, 8> needed;
  for (auto& entry : needed) {
    entry = descriptor(::eventfd(0, EFD_CLOEXEC));
    if (!entry)
      return {error_kind::precondition, "this process may have " + std::to_string(descriptors_allowed()) +
                                            " descriptors open, too few for the event loop, which needs " +
                                            std::to_string(needed.size()) + " more (" + std::strerror(errno) +
                                            "): raise the limit with 'ulimit -n'"};
  }
  return {};
}

} // namespace

member_runtime::member_runtime(settings values)
    : values_(std::move(values)), log_(log_options_of(values_)),
      shared_state_(std::make_shared<farandole::shared_member_state>()) {}

expected<std::unique_ptr<member_runtime>> member_runtime::start(settings values, member_start manner) {
  try {
    std::unique_ptr<member_runtime> runtime{new member_runtime(std::move(values))};
    runtime->shared_state_->faults = std::move(manner.faults);
    runtime->open_recorder();
    runtime->trace_ = process_trace::begin(runtime->values_, runtime->recorder(), runtime->log_);
    if (!runtime->values_.flag(setting::nvtx_disable))
      runtime->shared_state_->ranges = nvtx_ranges::open();
    for (auto& warning : runtime->values_.warnings())
      runtime->log_.warning(warning);
    if (auto problem = runtime->join(manner))
      return problem;
    runtime->open_timeline();
    return runtime;
  } catch (const std::exception& lack) { // std::bad_alloc, or std::system_error if no thread can be started
    return error{error_kind::unknown,
                 "this process has too little memory, or may not start the threads that it needs (" +
                     std::string(lack.what()) +
                     "): raise its limits (ulimit -v, ulimit -u), or give the host more memory"};
  }
}

void member_runtime::open_recorder() {
  std::string problem;
  shared_state_->recorder = open_event_recorder(values_, problem);
  if (!problem.empty())
    log_.warning(problem + "; the record is kept in memory of this process");
}

void member_runtime::open_timeline() {
  const auto& path = values_.text(setting::timeline);
  if (path.empty() || shared_state_->rank != 0)
    return;
  timeline_ = std::make_unique<timeline>(recorder(), log_, values_.duration(setting::shutdown_timeout));
  if (path != timeline_by_program)
    timeline_->start(path, values_.flag(setting::timeline_mark_cycles));
}

error member_runtime::start_timeline(const std::string& path, bool mark_cycles) {
  if (values_.text(setting::timeline).empty())
    return {error_kind::invalid_argument,
            "set HOROVOD_TIMELINE=DYNAMIC before init() to start the timeline from the program"};
  if (timeline_)
    timeline_->start(path, mark_cycles);
  return {};
}

void member_runtime::stop_timeline() {
  if (shared_state_->rank == 0 && !(timeline_ && timeline_->stop()))
    log_.warning("no timeline is being written, so none was stopped");
}

void member_runtime::mark_step() {
  recorder()->record(event_kind::step, 0, 0, 0, steps_.fetch_add(1, std::memory_order_relaxed) + 1);
}

void member_runtime::await_loop(bool late) {
  late_ = late;
  outside_loop_ = true;
}

error member_runtime::check_loop() {
  if (!outside_loop_)
    return {};
  const std::string rule =
      "In an elastic job, call collective operations only inside the function that elastic.run decorates, "
      "and keep values that must be equal on all ranks in the state, which is synchronized when the function "
      "begins";
  if (late_)
    return {
        error_kind::precondition,
        "this process has joined a job that was running already, and called a collective operation before "
        "the function that elastic.run decorates: the other members are inside that function and do not run "
        "this operation. " +
            rule};
  if (outside_loop_.exchange(false) && shared_state_->rank == 0)
    log_.warning(
        "a collective operation was called before the function that elastic.run decorates. This works on the "
        "workers that are in the job from its start. A worker that joins later raises an error here, because "
        "no other worker runs this operation any more. " +
        rule);
  return {};
}

error member_runtime::join(const member_start& start) {
  auto secret = start.secret;
  if (needs_mpi(values_, start.mpi)) {
    auto met = mpi_start::meet(values_, secret, start.mpi);
    if (!met)
      return met.error();
    mpi_ = std::move(*met);
    if (mpi_)
      shared_state_->mpi = mpi_->job();
  } else if (start.mpi.launch && pmi_start::applies(values_, *start.mpi.launch)) {
    auto met = pmi_start::meet(values_, secret, *start.mpi.launch);
    if (!met)
      return met.error();
    pmi_ = std::move(*met);
  }
  const bool alone = values_.text(setting::rendezvous_address).empty() && !mpi_ && !pmi_;
  if (alone && start.mpi.launch && !is_meant_to_be_alone(values_))
    if (auto problem = objection_to_job(*start.mpi.launch, 0, 1))
      return problem;
  member_setup setup;
  setup.shared = shared_state_;
  setup.settings = values_;
  setup.log = &log_;
  setup.secret = secret;
  setup.own_hello.slot = static_cast<std::int32_t>(values_.integer(setting::rank));
  setup.own_hello.size = static_cast<std::int32_t>(values_.integer(setting::size));
  setup.own_hello.host = host_identity(values_);
  setup.own_hello.host_name = host_name();
  setup.own_hello.process = getpid();
  setup.own_hello.progress = start.progress;
  setup.own_hello.keeps_sets = start.sets_before.has_value();
  setup.own_hello.state_generation = start.state_generation;
  setup.own_hello.sets = start.sets_before.value_or(std::vector<kept_set>{});
  setup.own_hello.epoch = *start.epoch;
  setup.obeyed = epoch_ = start.epoch;
  setup.deadline = start.deadline;
  setup.stalls = stalls_;
  if (auto& location = values_.text(setting::rendezvous_address); !location.empty()) {
    if (secret.empty())
      return {error_kind::precondition,
              "a rendezvous is named (HOROVOD_GLOO_RENDEZVOUS_ADDR=" + location +
                  "), but no job secret: start the process with horovodrun, or pass "
                  "FARANDOLE_SECRET_FILE"};
    auto remote = resolve(location);
    if (!remote)
      return remote.error();
    const auto chosen = process_environment()(member_address_variable);
    auto own = chosen ? expected<std::string>(*chosen) : own_address_towards(*remote, values_);
    if (!own)
      return own.error();
    setup.rendezvous_ip = *remote;
    setup.rendezvous_port = static_cast<std::uint16_t>(values_.integer(setting::rendezvous_port));
    setup.bind_ip = *own;
    setup.links = link_settings::of(values_);
    setup.links.credentials = std::make_shared<const tls_credentials>(secret);
    setup.links.connect_timeout = values_.duration(setting::start_timeout);
    setup.links.connect_timeout_setting = values_.cited(setting::start_timeout);
    setup.links.log = &log_;
  }
  if (auto problem = refusal_of_descriptors())
    return problem;
  system_ = std::make_unique<loop_system>();
  auto started = shared_state_->started.get_future();
  member_ = caf::actor_cast<caf::actor>(system_->get().spawn(member_root, std::move(setup)));
  while (started.wait_until(start.deadline->deadline(std::chrono::steady_clock::now())) !=
         std::future_status::ready) {
    if (start.deadline->over(std::chrono::steady_clock::now()))
      return did_not_come_together();
    log_.warning("init() still waits: the others train, and this process joins at their next commit");
  }
  return started.get();
}

error member_runtime::did_not_come_together() const {
  const auto patience = join_timeout(values_);
  const auto missing = shared_state_->missing.get();
  const auto this_rank = "rank " + std::to_string(values_.integer(setting::rank)) + " of " +
                         std::to_string(values_.integer(setting::size)) + " on " + host_name();
  if (const auto unconnected = shared_state_->unconnected.get(); !unconnected.empty())
    return {error_kind::timed_out, "the job did not come together within " + values_.cited(patience) + ": " +
                                       this_rank + " could not connect its data paths (" + unconnected +
                                       "); check that workers reach each other's ports and call init()"};
  return {error_kind::timed_out, "the job did not come together within " + values_.cited(patience) + ": " +
                                     this_rank + " waited for the others" +
                                     (missing.empty() ? "" : " (" + missing + ")") +
                                     "; check that all of them were started and call init()"};
}

void member_runtime::shutdown(departure manner) {
  if (left_.exchange(true, std::memory_order_relaxed) || !system_)
    return;
  stalls_->close();
  manner.exception = printable_line(manner.exception);
  caf::anon_send(member_, leave_request{std::move(manner)});
  // The member has its own deadline. This one only guards against a defect in the member.
  shared_state_->ended.get_future().wait_for(2 * values_.duration(setting::shutdown_timeout) +
                                             std::chrono::seconds{1});
  if (timeline_)
    timeline_->stop();
}

void member_runtime::withdraw() {
  if (!alive())
    return;
  caf::anon_send(member_, withdraw_atom::value);
  shared_state_->changes.await(answer_time);
}

expected<std::shared_ptr<submission_queue>> member_runtime::queue(std::uint32_t set) const {
  // The submission queue of the global set lives as long as this object. So the returned pointer needs no reference
  // count, which saves its cost for most operations.
  if (set == 0)
    return std::shared_ptr<farandole::submission_queue>(std::shared_ptr<void>(),
                                                        shared_state_->global->queue.get());
  auto found = shared_state_->sets.find(set);
  if (!found)
    return error{error_kind::invalid_argument, "there is no process set " + std::to_string(set)};
  if (!found->queue)
    return error{error_kind::invalid_argument, "rank " + std::to_string(shared_state_->rank) +
                                                   " is not in process set " + std::to_string(set) +
                                                   ", which has ranks " + ranks_to_text(found->ranks)};
  return found->queue;
}

member_runtime::~member_runtime() {
  shutdown();
  auto& global = *shared_state_->global;
  if (global.queue)
    global.queue->close();
  // The last tasks of the lanes may still send messages, so the lane threads end before the actor system.
  if (global.lane)
    global.lane->stop();
  shared_state_->sets.shut();
  if (member_)
    caf::anon_send_exit(member_, caf::exit_reason::user_shutdown);
  member_ = nullptr;
  system_.reset();
}

} // namespace farandole
