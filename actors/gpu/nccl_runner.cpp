#include "actors/gpu/nccl_runner.hpp"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "actors/gpu/device_bundle.hpp"
#include "actors/gpu/nccl_plan.hpp"
#include "actors/submission/growing_pause.hpp"

namespace farandole {

namespace {

/// From NCCL 2.30 on, several ranks may use one GPU if the user says so.
constexpr std::int32_t shared_gpu_version = 23000;

bool allows_shared_gpu(std::int32_t version) {
  const char* set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return version >= shared_gpu_version && set != nullptr && std::string_view(set) == "1";
}

error aborted() {
  return {error_kind::disconnected, "aborted while NCCL worked"};
}

} // namespace

bool nccl_runner::is_staged(const work& bundle) const {
  return !options_.launcher ||
         options_.choices[static_cast<std::size_t>(bundle.operation)] == gpu_choice::staged ||
         !has_device_plan(bundle, options_.members.size());
}

bool nccl_runner::may_take(const work& bundle) const {
  if (is_staged(bundle))
    return false;
  const auto found = groups_.find(bundle.devices);
  return found == groups_.end() || found->second.refusal.empty();
}

expected<bool> nccl_runner::takes(const work& bundle, const deadline_and_abort& deadline,
                                  const host_run& run_on_host) {
  if (is_staged(bundle))
    return false;
  auto& target = groups_[bundle.devices];
  if (!target.connected && target.refusal.empty())
    if (auto problem = is_alone() ? prepare_alone(target, device_of(bundle))
                                  : prepare(target, device_of(bundle), deadline, run_on_host))
      return problem;
  if (!target.refusal.empty() &&
      options_.choices[static_cast<std::size_t>(bundle.operation)] == gpu_choice::nccl)
    return error{error_kind::unimplemented,
                 "FARANDOLE_GPU_PATH=nccl, and NCCL cannot be used: " + target.refusal +
                     ". Unset FARANDOLE_GPU_PATH, and the tensors move through host memory"};
  return target.connected;
}

// A set of one needs no communicator.
error nccl_runner::prepare_alone(group& target, std::int32_t device) {
  if (device < 0)
    return {};
  auto launcher = options_.launcher(device);
  target.connected = static_cast<bool>(launcher);
  if (launcher)
    target.launcher = std::move(*launcher);
  else
    target.refusal = launcher.error().text;
  return {};
}

error nccl_runner::prepare(group& target, std::int32_t device, const deadline_and_abort& deadline,
                           const host_run& run_on_host) {
  const auto answer = agree(target, device, deadline, run_on_host);
  if (!answer)
    return answer.error();
  target.connected = answer->decided == decision::kind::agreed;
  if (!target.connected)
    target.communicator.reset();
  if (answer->decided == decision::kind::never)
    target.refusal = answer->reason;
  if (options_.remark && answer->decided != decision::kind::later)
    options_.remark(target.connected ? "tensors in GPU memory move by NCCL"
                                     : "tensors in GPU memory move through host memory: " + answer->reason,
                    target.connected);
  return {};
}

// Each step is taken only if all members have taken the one before, so that no member waits in NCCL for one that has failed
// already. An id is made only if it will be used: NCCL listens for it until the process ends.
expected<nccl_runner::decision> nccl_runner::agree(group& target, std::int32_t device,
                                                   const deadline_and_abort& deadline,
                                                   const host_run& run_on_host) {
  std::shared_ptr<nccl_library> library;
  const auto own = own_statement(target, device, library);
  auto answer = ask(own, deadline, run_on_host);
  const auto goes_on = [&] { return answer && answer->decided == decision::kind::agreed; };
  if (goes_on())
    answer = ask(with_id(own, *library), deadline, run_on_host);
  if (goes_on())
    answer = ask(begin(target, own, *library, answer->id), deadline, run_on_host);
  if (!goes_on())
    return answer;
  library_ = library;
  const auto connected = connect(target, own, deadline.abort);
  // The other members may still connect.
  const deadline_and_abort later{deadline.abort, deadline.deadline + options_.connect_timeout,
                                 deadline.deadline_setting};
  return ask(connected, later, run_on_host);
}

device_statement nccl_runner::own_statement(group& target, std::int32_t device,
                                            std::shared_ptr<nccl_library>& library) const {
  // It would make communicators block, without a deadline.
  if (const char* blocking = std::getenv("NCCL_COMM_BLOCKING"); blocking && std::string_view(blocking) != "0")
    return device_statement::unable("NCCL_COMM_BLOCKING is set; unset it");
  auto loaded = options_.library();
  if (!loaded)
    return device_statement::unable(loaded.error().text);
  library = std::move(*loaded);
  if (device < 0)
    return device_statement::absent();
  auto launcher = options_.launcher(device);
  if (!launcher)
    return device_statement::unable(launcher.error().text);
  target.launcher = std::move(*launcher);
  if (auto buffer = target.launcher->buffer(); !buffer)
    return device_statement::unable(buffer.error().text);
  return device_statement::able(library->version(), target.launcher->gpu(),
                                allows_shared_gpu(library->version()));
}

device_statement nccl_runner::with_id(device_statement own, nccl_library& library) const {
  if (options_.rank != 0)
    return own;
  auto created = library.create_id();
  if (!created)
    return device_statement::unable(created.error().text);
  own.id = *created;
  return own;
}

device_statement nccl_runner::begin(group& target, const device_statement& own, nccl_library& library,
                                    const communicator_id& id) const {
  auto begun = library.begin({target.launcher->owner(), target.launcher->device(),
                              static_cast<std::int32_t>(options_.members.size()),
                              static_cast<std::int32_t>(options_.rank)},
                             id);
  if (!begun)
    return device_statement::unable(begun.error().text);
  target.communicator = std::move(*begun);
  return own;
}

device_statement nccl_runner::connect(group& target, const device_statement& own,
                                      const abort_token& abort) const {
  const deadline_and_abort limits{
      abort, std::chrono::steady_clock::now() + options_.connect_timeout,
      "the time to connect (" +
          std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options_.connect_timeout).count()) +
          " s)"};
  const auto problem = target.communicator->connect(step_of(limits));
  if (!problem)
    return own;
  return device_statement::unable(problem.text, problem.kind == error_kind::timed_out
                                                    ? device_statement::kind::late
                                                    : device_statement::kind::unable);
}

expected<nccl_runner::decision> nccl_runner::ask(const device_statement& own,
                                                 const deadline_and_abort& deadline,
                                                 const host_run& run_on_host) const {
  device_agreement agreement(own, options_.members.size());
  auto question = agreement.question();
  if (auto problem = run_on_host(question, deadline))
    return problem;
  return agreement.answer(options_.members);
}

error nccl_runner::wait_for_members(const deadline_and_abort& deadline, const host_run& run_on_host) const {
  for (const auto& [devices, target] : groups_)
    if (target.communicator) {
      const auto answer = ask(device_statement::absent(), deadline, run_on_host);
      return answer ? error{} : answer.error();
    }
  return {};
}

outcome nccl_runner::run(const work& bundle, const deadline_and_abort& deadline) {
  auto& target = groups_.at(bundle.devices);
  if (aborted_)
    return {aborted()};
  device_buffer regions;
  if (!is_alone()) {
    auto memory = target.launcher->buffer();
    if (!memory)
      return {memory.error()};
    regions = device_buffer::of(*memory, device_launcher::buffer_bytes);
  }
  outcome result;
  result.waits_for_members = !is_alone();
  const auto plan = device_plan_of(bundle, options_.members.size(), regions);
  auto launched =
      target.launcher->launch(plan, ready_points(bundle), target.communicator.get(), step_of(deadline));
  if (launched) {
    result.device = std::move(*launched);
  } else {
    result.error = launched.error();
    result.device.progress = target.launcher->progress();
  }
  return result;
}

wait_step nccl_runner::step_of(const deadline_and_abort& deadline) const {
  return [this, &deadline, pause = growing_pause()]() mutable -> error {
    if (deadline.abort.raised())
      return aborted();
    if (std::chrono::steady_clock::now() >= deadline.deadline)
      return {error_kind::timed_out,
              "NCCL has not done what it was asked for: " + deadline.deadline_setting + " has passed"};
    options_.while_waiting();
    pause.wait();
    return {};
  };
}

void nccl_runner::abort() {
  aborted_ = true;
  for (auto& [devices, target] : groups_)
    if (target.communicator)
      target.communicator->abort();
}

void nccl_runner::close() {
  constexpr std::chrono::seconds patience{5};
  aborted_ = true;
  groups_.clear();
  if (library_)
    library_->wait_until_freed(patience);
}

error nccl_runner::failure() const {
  for (const auto& [devices, target] : groups_) {
    if (!target.connected)
      continue;
    if (auto problem = target.launcher->failure())
      return problem;
    if (target.communicator)
      if (auto problem = target.communicator->failure())
        return problem;
  }
  return {};
}

} // namespace farandole
