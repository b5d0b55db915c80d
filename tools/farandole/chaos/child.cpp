#include "tools/farandole/chaos/child.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "messages/values/descriptor.hpp"

namespace farandole::chaos {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto longest_run = 15s;
constexpr std::size_t most_said = 1024;

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

pid_t spawn(const child_options& options) {
  std::vector<char*> pointers;
  for (const auto& word : options.words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0)
    return child;
  ::setpgid(0, 0); // a terminal's Ctrl-C must reach only the tool, which then ends the job
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool ready = ::getppid() == parent &&
                     (options.network < 0 || ::setns(options.network, CLONE_NEWNET) == 0) &&
                     (options.input < 0 || ::dup2(options.input, 0) >= 0) && ::dup2(options.output, 1) >= 0 &&
                     ::dup2(options.errors, 2) >= 0;
  for (const auto& [name, value] : options.settings)
    ::setenv(name.c_str(), value.c_str(), 1);
  if (ready)
    ::execvp(options.program, pointers.data());
  ::_exit(127);
}

std::optional<int> reap(pid_t child, std::chrono::milliseconds longest) {
  const auto deadline = clock::now() + longest;
  for (int status = 0;;) {
    const auto ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child)
      return code_of(status);
    if (ended < 0 && errno != EINTR)
      return 127;
    if (clock::now() >= deadline)
      return std::nullopt;
    ::poll(nullptr, 0, 10);
  }
}

ending run_to_end(child_options options) {
  const descriptor output{::memfd_create("farandole-chaos", MFD_CLOEXEC)};
  options.output = options.errors = output.get();
  const auto child = output ? spawn(options) : -1;
  if (child < 0)
    return {127, std::strerror(errno)};
  const auto name = options.words.front();
  auto code = reap(child, longest_run);
  if (!code) {
    ::kill(child, SIGKILL);
    reap(child, longest_run);
    return {137, name + " did not end"};
  }
  std::string said(most_said, '\0');
  const auto count = ::pread(output.get(), said.data(), said.size(), 0);
  said.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (said.empty() && *code != 0)
    said = name + " ended with " + std::to_string(*code);
  return {*code, said.substr(0, said.find_last_not_of('\n') + 1)};
}

} // namespace farandole::chaos
