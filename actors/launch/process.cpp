#include "actors/launch/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "actors/launch/process_keeper.hpp"
#include "actors/launch/program.hpp"

namespace farandole {

namespace {

std::string reason(int number) {
  return std::strerror(number);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts)
    result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// All data that the child needs. It is prepared before vfork, because until execve the child runs in the memory of
/// this process: it may make only async-signal-safe calls, and changes nothing but its own stack frames and errno.
struct launch {
  std::string program;
  std::vector<char*> arguments;
  std::vector<char*> shell_arguments; ///< for a script without a #! line
  std::vector<char*> environment;
  std::vector<int> inherited;
  const char* directory; ///< null: that of the launcher
  bool own_session;
  pid_t launcher;
  int keeper;
  int input, output, errors, failure;
};

[[noreturn]] void give_up(int failure) {
  const int number = errno;
  [[maybe_unused]] const auto count = ::write(failure, &number, sizeof number);
  ::_exit(127);
}

/// A signal that the launcher's own parent ignores stays ignored, as after nohup. The launcher itself ignores SIGPIPE,
/// and programs that run others need SIGCHLD.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction current {};
    const bool keeps = number != SIGPIPE && number != SIGCHLD &&
                       ::sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
    if (!keeps)
      ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(const launch& launch) {
  if (launch.own_session)
    ::setsid();
  else
    ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launch.launcher)
    ::_exit(127); // the launcher died before PR_SET_PDEATHSIG took effect
  if (launch.keeper >= 0 && !process_keeper::enter(launch.keeper, ::getpid()))
    give_up(launch.failure);
  reset_signals();
  if (::dup2(launch.input, 0) < 0 || ::dup2(launch.output, 1) < 0 || ::dup2(launch.errors, 2) < 0)
    give_up(launch.failure);
  if (launch.directory && ::chdir(launch.directory) != 0)
    give_up(launch.failure);
  for (const int fd : launch.inherited)
    if (::fcntl(fd, F_SETFD, 0) < 0)
      give_up(launch.failure);
  ::execve(launch.program.c_str(), launch.arguments.data(), launch.environment.data());
  if (errno == ENOEXEC)
    ::execve("/bin/sh", launch.shell_arguments.data(), launch.environment.data());
  give_up(launch.failure);
}

/// Starts the child, and returns when it has called execve or has ended; both take only a moment. A fork would copy
/// the page tables of the launcher for each worker, which took half of the processor time of a start. Until the child
/// has reset its signals, all are blocked, because a handler of this process would run in the child on shared memory.
pid_t start_child(const launch& launch) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::vfork();
  if (child == 0)
    run_child(launch);
  const int number = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = number;
  return child;
}

expected<std::pair<descriptor, descriptor>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return error{error_kind::unknown, "pipe2: " + reason(errno)};
  return std::pair{descriptor{ends[0]}, descriptor{ends[1]}};
}

} // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const auto& entry : environment)
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string_view(entry).substr(name.size() + 1);
  return {};
}

expected<process> start_process(const process_spec& spec) {
  assert(!spec.arguments.empty());
  auto program = find_program(spec.arguments.front(), variable_in(spec.environment, "PATH"));
  if (!program)
    return program.error();
  auto output = make_pipe(), errors = make_pipe(), failure = make_pipe();
  for (const auto* made : {&output, &errors, &failure})
    if (!*made)
      return made->error();
  std::pair<descriptor, descriptor> input;
  if (spec.keeps_input) {
    auto made = make_pipe();
    if (!made)
      return made.error();
    input = std::move(*made);
  } else {
    input.first = descriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  }

  std::pair<descriptor, descriptor> channel;
  auto environment = spec.environment;
  auto inherited = spec.inherited;
  if (!spec.channel_variable.empty()) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return error{error_kind::unknown, "socketpair: " + reason(errno)};
    channel = {descriptor{ends[0]}, descriptor{ends[1]}};
    std::erase_if(environment,
                  [&](const std::string& entry) { return entry.starts_with(spec.channel_variable + "="); });
    environment.push_back(spec.channel_variable + "=" + std::to_string(ends[1]));
    inherited.push_back(ends[1]);
  }
  auto arguments = pointers(spec.arguments);
  auto shell_arguments = arguments;
  shell_arguments.front() = const_cast<char*>(program->c_str());
  static const char shell[] = "/bin/sh";
  shell_arguments.insert(shell_arguments.begin(), const_cast<char*>(shell));
  const launch launch{*program,
                      std::move(arguments),
                      std::move(shell_arguments),
                      pointers(environment),
                      std::move(inherited),
                      spec.directory.empty() ? nullptr : spec.directory.c_str(),
                      spec.own_session,
                      ::getpid(),
                      spec.keeper ? spec.keeper->write_end() : -1,
                      input.first.get(),
                      output->second.get(),
                      errors->second.get(),
                      failure->second.get()};
  const pid_t child = start_child(launch);
  if (child < 0)
    return error{error_kind::unknown, "vfork: " + reason(errno)};

  failure->second.close();
  int number = 0;
  ssize_t count = 0;
  do { // the child has closed its end, or has written the cause
    count = ::read(failure->first.get(), &number, sizeof number);
  } while (count < 0 && errno == EINTR);
  process started{child,
                  descriptor{static_cast<int>(::syscall(SYS_pidfd_open, child, 0))},
                  std::move(input.second),
                  std::move(channel.first),
                  std::move(output->first),
                  std::move(errors->first)};
  if (count == 0 && started.watched)
    return started;
  const auto cause = count == 0 ? error{error_kind::unknown, "pidfd_open: " + reason(errno)}
                                : start_failure(*program, number);
  started.signal(SIGKILL);
  started.reap(spec.keeper);
  return cause;
}

process_end process::ending() const {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT) < 0)
    assert(errno == EINTR);
  if (info.si_code == CLD_EXITED)
    return {info.si_status, 0};
  return {128 + info.si_status, info.si_status};
}

void process::signal(int number) const {
  assert(id > 0);
  ::kill(-id, number);
}

void process::reap(const process_keeper* keeper) {
  if (keeper)
    keeper->leave(id);
  while (::waitpid(id, nullptr, 0) < 0)
    assert(errno == EINTR);
  id = -1;
}

std::string process_end::text() const {
  if (!loss.empty())
    return loss;
  if (signal != 0)
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  return "exited with code " + std::to_string(code);
}

} // namespace farandole
