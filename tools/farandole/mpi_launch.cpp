#include "tools/farandole/mpi_launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <span>

#include "actors/launch/process.hpp"
#include "actors/launch/program.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/file_bytes.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/shell_words.hpp"
#include "tools/farandole/command_output.hpp"
#include "tools/farandole/jsrun_command.hpp"
#include "tools/farandole/mpi_command.hpp"
#include "tools/farandole/worker_environment.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

std::chrono::milliseconds start_timeout(const run_request& request) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      request.values.duration(setting::start_timeout));
}

expected<mpi_launch> plan_mpirun(const run_request& request, const std::vector<std::string>& command,
                                 const ssh_options& remote_shell, const std::vector<std::string>& later,
                                 mpi_launch launch) {
  const auto& told = request.mpi.version_text;
  const auto version = told.empty()
                           ? output_of({"mpirun", "--version"}, launch.environment, start_timeout(request))
                           : expected<std::string>(told);
  if (!version)
    return wrong(
        version.error().text +
        "; put the mpirun of Open MPI, MPICH, Intel MPI or Spectrum MPI on PATH, or leave out --mpi");
  const auto kind = detect_mpi(*version);
  if (!kind)
    return kind.error();
  mpi_request wanted;
  wanted.processes = request.processes;
  wanted.hosts = request.hosts;
  if (!request.values.text(setting::remote_shell).empty()) // mpirun knows its own variables itself
    wanted.remote_shell = remote_shell.remote_shell;
  wanted.ssh_port = request.ssh_port.value_or(0);
  wanted.ssh_identity_file = request.ssh_identity_file;
  wanted.interfaces = request.interfaces;
  wanted.output_filename = request.output_folder;
  wanted.variables = exported_names(launch.environment);
  wanted.variables.insert(wanted.variables.end(), later.begin(), later.end());
  wanted.mpi_args = request.mpi_args;
  wanted.binding_args = request.binding_args;
  wanted.tcp_only = request.tcp_only;
  wanted.timestamps = request.prefix_timestamp;
  wanted.traits = request.mpi;
  wanted.command = command;
  auto made = make_mpi_command(*kind, wanted);
  if (!made)
    return made.error();
  launch.name = to_string(*kind);
  launch.parts = {{"binding", made->binding}, {"flags", made->flags}};
  launch.words = std::move(made->words);
  launch.additions = std::move(made->environment);
  launch.environment.insert(launch.environment.end(), launch.additions.begin(), launch.additions.end());
  return launch;
}

/// Starts a process that removes a file as soon as `reader` has ended. The process is no child of this one, which may
/// become a program that expects no children.
error remove_at_end(const std::string& path, pid_t reader) {
  descriptor end{static_cast<int>(::syscall(SYS_pidfd_open, reader, 0))};
  if (!end)
    return {error_kind::unknown, std::string("pidfd_open: ") + std::strerror(errno)};
  const auto child = ::fork();
  if (child < 0)
    return {error_kind::unknown, std::string("fork: ") + std::strerror(errno)};
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {};
  }
  if (::fork() != 0)
    ::_exit(0);
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  for (int number = 0; number <= 2; ++number)
    ::dup2(null, number);
  const auto own = end.get();
  ::dup2(own, 3); // the highest descriptor that stays open
  ::close_range(4, ~0U, 0);
  pollfd watched{3, POLLIN, 0};
  while (::poll(&watched, 1, -1) < 0) { // without limit: a job may take any time
  }
  ::unlink(path.c_str());
  ::_exit(0);
}

/// Writes a rank file, which is removed when `reader` has ended, and returns its path.
expected<std::string> write_rank_file(const run_request& request, std::int32_t cpus_per_host, pid_t reader) {
  const auto placed = jsrun_rank_file(request.hosts, request.processes, cpus_per_host);
  if (!placed)
    return placed.error();
  std::error_code problem;
  auto path = std::filesystem::temp_directory_path(problem).string() + "/farandole-ranks-XXXXXX";
  descriptor file{::mkostemp(path.data(), O_CLOEXEC)};
  if (!file || !write_all(file.get(), std::as_bytes(std::span(*placed)))) {
    const auto failure = wrong("the rank file " + path + " cannot be written: " + std::strerror(errno) +
                               "; TMPDIR names another folder");
    if (file)
      ::unlink(path.c_str());
    return failure;
  }
  if (auto failure = remove_at_end(path, reader)) {
    ::unlink(path.c_str());
    return failure;
  }
  return path;
}

/// Writes the rank file for the hosts of a CSM allocation, and returns its path.
expected<std::string> place_ranks(const run_request& request, const std::vector<std::string>& environment,
                                  const ssh_options& remote_shell) {
  const auto allocation = process_environment()("CSM_ALLOCATION_ID").value_or("");
  if (allocation.empty())
    return wrong(
        "jsrun needs a file with the CPUs of each rank, and CSM_ALLOCATION_ID is not set, so the CPUs of the "
        "hosts are unknown; give jsrun's own options with --binding-args, or launch without it (--gloo)");
  const auto cpus = query_csm_cpus(
      allocation,
      [&](const std::vector<std::string>& query) {
        return output_of(query, with_csm_folder(environment), start_timeout(request));
      },
      [&](const std::string& host, std::string line) {
        auto words = remote_shell_words(remote_shell, host);
        words.push_back(std::move(line));
        return words;
      });
  if (!cpus)
    return cpus.error();
  return write_rank_file(request, *cpus, ::getpid());
}

expected<mpi_launch> plan_jsrun(const run_request& request, const std::vector<std::string>& command,
                                const ssh_options& remote_shell, mpi_launch launch) {
  jsrun_request wanted;
  wanted.output_filename = request.output_folder;
  wanted.mpi_args = request.mpi_args;
  wanted.binding_args = request.binding_args;
  wanted.tcp_only = request.tcp_only;
  wanted.timestamps = request.prefix_timestamp;
  wanted.command = command;
  if (request.binding_args.empty()) {
    auto path = place_ranks(request, launch.environment, remote_shell);
    if (!path)
      return path.error();
    wanted.rank_file = std::move(*path);
  }
  auto words = make_jsrun_command(wanted);
  if (!words)
    return words.error();
  launch.name = "jsrun";
  launch.words = std::move(*words);
  return launch;
}

} // namespace

expected<mpi_launch> plan_mpi_launch(const run_request& request, const std::vector<std::string>& command,
                                     const ssh_options& remote_shell, const std::vector<std::string>& later) {
  mpi_launch launch;
  launch.environment = with_search_paths(
      environment_without_place(own_environment(), request.values, request.interfaces, request.tcp_only),
      process_environment());
  // The secret of `later` is a new one: no process may take another from a variable or a file of this launcher.
  if (!later.empty())
    launch.environment = without_secrets(launch.environment);
  return request.mode == launch_mode::mpirun
             ? plan_mpirun(request, command, remote_shell, later, std::move(launch))
             : plan_jsrun(request, command, remote_shell, std::move(launch));
}

expected<std::string> write_rank_file_for_parent(const run_request& request) {
  return write_rank_file(request, request.rank_file_cpus, ::getppid());
}

std::string printed_line(const mpi_launch& launch) {
  auto line = "# " + launch.name + "\n";
  for (const auto& [name, words] : launch.parts)
    line += "# " + name + ":" + (words.empty() ? "" : " " + shell_line(words)) + "\n";
  for (const auto& entry : launch.additions) {
    const auto equals = entry.find('=');
    const std::string value[] = {entry.substr(equals + 1)};
    line += entry.substr(0, equals + 1) + shell_line(value) + " ";
  }
  return line + shell_line(launch.words);
}

int become(const mpi_launch& launch) {
  const auto path = [&] {
    for (const auto& entry : launch.environment)
      if (entry.starts_with("PATH="))
        return entry.substr(5);
    return std::string();
  }();
  auto problem = error{};
  if (const auto program = find_program(launch.words.front(), path)) {
    std::vector<char*> words, environment;
    for (const auto& word : launch.words)
      words.push_back(const_cast<char*>(word.c_str()));
    for (const auto& entry : launch.environment)
      environment.push_back(const_cast<char*>(entry.c_str()));
    words.push_back(nullptr);
    environment.push_back(nullptr);
    std::cout.flush();
    ::execve(program->c_str(), words.data(), environment.data());
    problem = start_failure(*program, errno);
  } else {
    problem = program.error();
  }
  std::cerr << "farandole: " << printable(problem.text) << std::endl;
  return start_failure_code(problem);
}

} // namespace farandole
