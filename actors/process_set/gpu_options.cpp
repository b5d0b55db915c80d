#include "actors/process_set/gpu_options.hpp"

#include <string>
#include <utility>

#include "actors/gpu/nccl_plan.hpp"
#include "actors/gpu/process_gpus.hpp"
#include "actors/process_set/set_options.hpp"
#include "actors/process_set/set_tree.hpp"

namespace farandole {

namespace {

struct operation_setting {
  operation id;
  setting own;
};
constexpr operation_setting operation_settings[] = {
    {operation::allreduce, setting::gpu_allreduce},         {operation::allgather, setting::gpu_allgather},
    {operation::broadcast, setting::gpu_broadcast},         {operation::alltoall, setting::gpu_alltoall},
    {operation::reducescatter, setting::gpu_reducescatter},
};

gpu_choice choice_of(const std::string& library) {
  return library == "mpi" ? gpu_choice::staged : gpu_choice::automatic;
}

} // namespace

std::array<gpu_choice, operation_count> gpu_choices(const settings& values) {
  std::array<gpu_choice, operation_count> choices{};
  const auto& path = values.text(setting::gpu_path);
  choices.fill(path == "nccl"     ? gpu_choice::nccl
               : path == "staged" ? gpu_choice::staged
                                  : choice_of(values.text(setting::gpu_operations)));
  if (path == "auto")
    for (const auto& [id, own] : operation_settings)
      if (const auto& library = values.text(own); !library.empty())
        choices[static_cast<std::size_t>(id)] = choice_of(library);
  return choices;
}

std::function<bool(const bundle& cut)> device_waits_of(const set_setup& setup) {
  return [choices = gpu_choices(setup.settings), members = setup.ranks().size()](const bundle& cut) {
    return members > 1 && cut.memory == memory_kind::device &&
           choices[static_cast<std::size_t>(cut.operation)] != gpu_choice::staged &&
           has_device_plan(cut.operation, cut.dtype, cut.reduce_op, members);
  };
}

nccl_runner::options nccl_options_of(const set_setup& setup) {
  const auto set = view_of(setup);
  const auto& values = setup.settings;
  nccl_runner::options options;
  options.rank = static_cast<std::size_t>(set.rank);
  for (const auto& member : set.members)
    options.members.push_back({setup.shared->name_of(member.rank), member.host});
  options.choices = gpu_choices(values);
  options.connect_timeout = values.duration(setting::start_timeout);
  const bool between_hosts = !set.one_host();
  const bool refused = between_hosts && values.flag(setting::require_secure);
  const auto id = setup.set_state->id;
  const auto stream = id % static_cast<std::uint32_t>(values.integer(setting::nccl_streams));
  options.launcher = [launchers = setup.shared->launchers, stream](std::int32_t device) {
    return launchers->get(device, stream);
  };
  options.library = [refused, timeout = values.duration(setting::operation_timeout),
                     host = values.text(setting::host_id)]() -> expected<std::shared_ptr<nccl_library>> {
    if (refused)
      return error{error_kind::unimplemented,
                   "FARANDOLE_REQUIRE_SECURE is set, and NCCL's connections between hosts are neither "
                   "authenticated nor encrypted"};
    return nccl_of_process(timeout, host);
  };
  // All members have the same answer, so one of them logs it.
  if (set.rank == 0 && setup.log != nullptr)
    options.remark = [log = setup.log, between_hosts, id](const std::string& text, bool by_nccl) {
      const auto line = (id == 0 ? "" : "process set " + std::to_string(id) + ": ") + text;
      if (!by_nccl || between_hosts)
        log->warning(line +
                     (by_nccl ? ", whose connections between hosts are neither authenticated nor encrypted; "
                                "see guides/security.md"
                              : ""));
      else
        log->info(line);
    };
  return options;
}

} // namespace farandole
