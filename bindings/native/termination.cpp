#include "bindings/native/termination.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

namespace farandole::native {

namespace {

static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// ---- of the member, and copied into its forked children ----

std::atomic<pid_t> owner{0}; ///< the member
std::atomic<pid_t> launching{0};
std::atomic<bool> came{false};

/// A flag in memory that the member shares with its forked children: whether the member is inside its elastic loop.
/// Mapped once and never unmapped, because children may read it at any time. Null if it could not be mapped.
std::atomic<bool>* in_loop = nullptr;

std::atomic<bool>* map_shared_flag() {
  void* memory =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) std::atomic<bool>(false);
}

// ---- of a guarded child ----

/// Sent by the kernel when the thread that forked the child has ended. Programs that the child executes
/// ignore it by default.
constexpr int parent_signal = SIGURG;

std::atomic<pid_t> guarded{
    0}; ///< the process that these values belong to: a child, or before that the member
std::atomic<pid_t> parent{0};
std::atomic<bool> owed{false}; ///< a SIGTERM was ignored: the child ends with its parent
struct sigaction passed_on {}; ///< the child's own action for a SIGTERM that is not ignored

bool has_parent() {
  return ::getppid() == parent;
}

/// Whether a SIGTERM is from a scheduler, which signals all processes of the member. One from the parent, the
/// launcher or the child itself is meant for this child, and so is every one that comes after the member has left
/// its loop.
bool is_ignored(const siginfo_t& info) {
  const bool means_child = info.si_code <= 0 && info.si_pid > 0 &&
                           (info.si_pid == parent || info.si_pid == launching || info.si_pid == ::getpid());
  return !means_child && in_loop->load() && has_parent();
}

void end_by(int number) {
  ::signal(number, SIG_DFL);
  ::kill(::getpid(), number); // delivered once this handler has returned
}

void pass_on(int number, siginfo_t* info, void* context) {
  if ((passed_on.sa_flags & SA_SIGINFO) != 0)
    passed_on.sa_sigaction(number, info, context);
  else if (passed_on.sa_handler == SIG_DFL)
    end_by(number);
  else if (passed_on.sa_handler != SIG_IGN)
    passed_on.sa_handler(number);
}

/// Async-signal-safe calls only.
void remember(int number, siginfo_t* info, void* context) {
  const int kept = errno;
  if (::getpid() == owner) {
    const bool ends_job = info->si_code == SI_USER && info->si_pid > 0 && info->si_pid == launching;
    if (ends_job || came.exchange(true))
      end_by(number);
  } else if (::getpid() != guarded) {
    end_by(number);
  } else if (is_ignored(*info)) {
    owed = true;
  } else {
    pass_on(number, info, context);
  }
  errno = kept;
}

/// The signal may only mean that a thread of the parent has ended, and not the parent.
void look_for_parent(int, siginfo_t*, void*) {
  const int kept = errno;
  if (owed && !has_parent())
    ::_exit(128 + SIGTERM);
  errno = kept;
}

using handler = void (*)(int, siginfo_t*, void*);

bool handles(const struct sigaction& action, handler by) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == by;
}

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

struct sigaction action_for(int number) {
  struct sigaction current {};
  ::sigaction(number, nullptr, &current);
  return current;
}

bool install(int number, handler by) {
  struct sigaction ours {};
  ours.sa_sigaction = by;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  return ::sigaction(number, &ours, nullptr) == 0;
}

/// False if the child may use the signal for another purpose, or if the parent has ended already.
bool watch_parent() {
  const auto current = action_for(parent_signal);
  if (!is_default(current) && !handles(current, &look_for_parent))
    return false;
  if (!install(parent_signal, &look_for_parent))
    return false;
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, parent_signal);
  ::pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  return ::prctl(PR_SET_PDEATHSIG, parent_signal) == 0 && has_parent();
}

} // namespace

void expect_children(pid_t launcher) {
  if (!in_loop)
    in_loop = map_shared_flag();
  launching = launcher;
  owner = guarded = ::getpid();
}

bool catch_termination(pid_t launcher) {
  if (!is_default(action_for(SIGTERM)))
    return false;
  expect_children(launcher);
  came = false;
  if (!install(SIGTERM, &remember))
    return false;
  if (in_loop)
    *in_loop = true;
  return true;
}

bool termination_came() {
  return came && ::getpid() == owner;
}

void release_termination() {
  if (in_loop && ::getpid() == owner)
    *in_loop = false;
  if (handles(action_for(SIGTERM), &remember))
    ::signal(SIGTERM, SIG_DFL);
  came = false;
}

bool guard_forked_child() {
  if (!in_loop || ::getpid() == owner)
    return false;
  const auto current = action_for(SIGTERM);
  if (guarded == ::getpid()) {
    if (handles(current, &remember))
      return true;
    passed_on = current;
    return install(SIGTERM, &remember);
  }
  // The default action means that the child was forked outside the loop.
  if (!handles(current, &remember) && !is_default(current))
    return false;
  parent = guarded.load();
  owed = false;
  passed_on = {};
  if (!watch_parent())
    return false;
  guarded = ::getpid();
  return install(SIGTERM, &remember);
}

} // namespace farandole::native
