#include "tools/farandole/job_placer.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <utility>

#include "actors/launch/process.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/shell_words.hpp"
#include "tools/farandole/mpi_launch.hpp"
#include "tools/farandole/placers/slurm.hpp"

namespace farandole {

namespace {

/// Precedes the rank in the names of agents that mpirun or jsrun starts.
constexpr const char* rank_name = "rank-";
/// The variables by which mpirun and jsrun tell a process its rank.
constexpr const char* rank_variables = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$JSM_NAMESPACE_RANK}}";
/// In place of the launcher's port, which is not known when the line of mpirun is composed.
constexpr std::uint16_t any_port = 0;
/// Kubernetes sets it in each pod.
constexpr const char* pod_variable = "KUBERNETES_SERVICE_HOST";

} // namespace

expected<ssh_options> remote_shell_of(const run_request& request, const std::string& program,
                                      const environment_lookup& environment) {
  ssh_options options;
  options.port = request.ssh_port;
  options.identity_file = request.ssh_identity_file;
  options.names_appear = environment(pod_variable).has_value();
  options.program.remote = request.values.text(setting::remote_program);
  options.program.own = program;
  auto text = request.values.text(setting::remote_shell);
  options.origin = row_of(setting::remote_shell).environment;
  if (text.empty()) {
    options.origin = "OMPI_MCA_plm_rsh_agent";
    text = environment(options.origin).value_or("");
  }
  if (text.empty() && request.allocated_by == batch_scheduler::lsf) {
    options.origin = "of LSF";
    text = "blaunch";
  }
  auto words = split_shell_words(text);
  if (!words)
    return error{error_kind::invalid_argument, options.origin + "='" + printable_name(text) +
                                                   "' cannot be split into words: " + words.error().text};
  options.remote_shell = std::move(*words);
  return options;
}

placer placer_of(const run_request& request, ssh_options remote_shell,
                 const std::vector<std::string>& launcher) {
  remote_shell.program.launcher = launcher;
  if (remote_shell.remote_shell.empty() && request.allocated_by == batch_scheduler::slurm)
    return slurm_placer(remote_shell.program, request.elastic, own_environment());
  // A host that cannot reach the launcher gets another try with forwarded ports, before the start timeout ends.
  const auto timeout =
      std::chrono::ceil<std::chrono::seconds>(request.values.duration(setting::start_timeout));
  remote_shell.program.dial_timeout = std::max(timeout / 3, std::chrono::seconds{1});
  return ssh_placer(remote_shell);
}

placer telling_placer(placer silent) {
  const auto tell = [](std::vector<std::string> words) {
    std::cout << "Launching horovod task function: " << shell_line(words) << std::endl;
    return words;
  };
  placer made = std::move(silent);
  made.command = [tell, command = std::move(made.command)](std::span<const std::string> hosts,
                                                           std::uint16_t port) {
    return tell(command(hosts, port));
  };
  if (made.forwarding_command)
    made.forwarding_command = [tell, command = std::move(made.forwarding_command)](
                                  const std::string& host, std::span<const forward_target> targets) {
      return tell(command(host, targets));
    };
  return made;
}

std::vector<host_slots> hosts_of_ranks(std::int32_t processes) {
  std::vector<host_slots> hosts;
  for (std::int32_t rank = 0; rank < processes; ++rank)
    hosts.push_back({rank_name + std::to_string(rank), 1});
  return hosts;
}

expected<placer> mpi_placer(const run_request& request, ssh_options remote_shell,
                            const std::vector<std::string>& launcher) {
  remote_shell.program.launcher = launcher;
  // The output of the workers goes to this launcher, which copies it and marks its lines.
  auto wanted = request;
  wanted.output_folder.clear();
  wanted.prefix_timestamp = false;
  const auto name = std::string(rank_name) + rank_variables;
  const auto agent = [program = remote_shell.program, name](std::uint16_t port) {
    return agent_words(program, port, name, secret_way::variable);
  };
  const std::string secret(row_of(setting::secret).environment);
  const auto launch = plan_mpi_launch(wanted, agent(any_port), remote_shell, {secret});
  if (!launch)
    return launch.error();
  placer made;
  made.name = launch->words.front();
  made.remedy = "; put " + made.name + " on PATH";
  made.programs = remote_shell.program.candidates();
  made.takes_all_hosts = true;
  made.secret_variable = secret;
  made.environment = launch->environment;
  // The words of the agent are the last ones.
  std::vector<std::string> start(launch->words.begin(),
                                 launch->words.end() - static_cast<std::ptrdiff_t>(agent(any_port).size()));
  made.command = [start, agent](std::span<const std::string>, std::uint16_t port) {
    auto words = start;
    const auto last = agent(port);
    words.insert(words.end(), last.begin(), last.end());
    return words;
  };
  return made;
}

} // namespace farandole
