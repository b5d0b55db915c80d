#include "cuda/fake/stand_in_nccl_testing.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

extern const char stand_in_nccl_library[]; // CMake defines it

namespace farandole {

namespace {

constexpr const char* child_test = "a rank in a process of its own";

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  if (function == nullptr)
    throw std::runtime_error(symbol);
}

stand_in_functions load() {
  stand_in_driver::function<void()>("cuInit"); // the library finds it by its name
  void* library = ::dlopen(stand_in_nccl_library, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw std::runtime_error(::dlerror());
  stand_in_functions found{};
  find(library, "ncclGetVersion", found.get_version);
  find(library, "ncclGetUniqueId", found.get_unique_id);
  find(library, "ncclCommInitRank", found.init_rank);
  find(library, "ncclCommInitRankConfig", found.init_rank_config);
  find(library, "ncclCommGetAsyncError", found.get_async_error);
  find(library, "ncclCommFinalize", found.finalize);
  find(library, "ncclCommDestroy", found.destroy);
  find(library, "ncclCommAbort", found.abort);
  find(library, "ncclCommRevoke", found.revoke);
  find(library, "ncclCommCount", found.count);
  find(library, "ncclCommUserRank", found.user_rank);
  find(library, "ncclGroupStart", found.group_start);
  find(library, "ncclGroupEnd", found.group_end);
  find(library, "ncclAllReduce", found.all_reduce);
  find(library, "ncclBroadcast", found.broadcast);
  find(library, "ncclAllGather", found.all_gather);
  find(library, "ncclReduceScatter", found.reduce_scatter);
  find(library, "ncclSend", found.send);
  find(library, "ncclRecv", found.receive);
  find(library, "ncclGetErrorString", found.error_string);
  find(library, "ncclGetLastError", found.last_error);
  find(library, "fakeNcclCalls", found.calls);
  find(library, "fakeNcclMisuses", found.misuses);
  find(library, "fakeNcclCommunicators", found.communicators);
  find(library, "fakeNcclIntroductions", found.introductions);
  find(library, "fakeNcclKernelsLaunched", found.kernels_launched);
  find(library, "fakeNcclKernelsRunning", found.kernels_running);
  find(library, "fakeNcclKernelsUnfinished", found.kernels_unfinished);
  find(library, "fakeNcclWaitForKernels", found.wait_for_kernels);
  return found;
}

std::string as_digits(const ncclUniqueId& id) {
  std::string digits;
  for (const char letter : id.internal)
    for (const int digit : {(letter >> 4) & 15, letter & 15})
      digits += static_cast<char>('a' + digit);
  return digits;
}

std::string hear_from(int socket) {
  std::string line;
  for (char letter = 0; ::read(socket, &letter, 1) == 1 && letter != '\n';)
    line += letter;
  return line;
}

void tell_to(int socket, const std::string& line) {
  const auto text = line + "\n";
  // A peer that is gone is noticed by hear_from().
  static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL));
}

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

} // namespace

const stand_in_functions& nccl() {
  static const auto functions = load();
  return functions;
}

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::yield();
  }
  return true;
}

ncclUniqueId new_unique_id() {
  ncclUniqueId id{};
  if (nccl().get_unique_id(&id) != ncclSuccess)
    throw std::runtime_error(nccl().last_error(nullptr));
  return id;
}

nccl_rank::nccl_rank(int own_rank, int ranks, int device)
    : rank(own_rank), size(ranks), gpu(device >= 0 ? device : own_rank), stream(gpu.stream()) {
  nccl();
}

ncclResult_t nccl_rank::init_non_blocking(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return nccl().init_rank_config(&comm, size, id, rank, &config);
}

ncclResult_t nccl_rank::state() const {
  auto state = ncclNumResults;
  const auto result = nccl().get_async_error(comm, &state);
  return result == ncclSuccess ? state : result;
}

void nccl_rank::synchronize() const {
  stand_in_driver::function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream);
}

ncclResult_t nccl_rank::reduce_anything() {
  auto* memory = upload(std::vector<std::int32_t>{1});
  return nccl().all_reduce(memory, memory, 1, ncclInt32, ncclSum, comm, stream);
}

std::string differs(ncclResult_t result, const std::string& place, ncclResult_t expected) {
  return result == expected
             ? ""
             : place + ": " + nccl().error_string(result) + " (" + nccl().last_error(nullptr) + "); ";
}

std::string run_ranks(int size, const std::function<std::string(nccl_rank&)>& body) {
  const auto id = new_unique_id();
  std::mutex mutex;
  std::string texts;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      nccl_rank own(rank, size);
      auto text = differs(own.init(id), "init");
      if (text.empty()) {
        text = body(own);
        text += differs(nccl().destroy(own.comm), "destroy");
      }
      const std::lock_guard lock(mutex);
      texts += text;
    });
  for (auto& thread : threads)
    thread.join();
  return texts;
}

nccl_process::nccl_process(const std::string& script, int rank, int size, const ncclUniqueId& id,
                           const std::vector<std::string>& environment) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair");
  std::vector<std::string> variables{"TEST_SCRIPT=" + script, "TEST_RANK=" + std::to_string(rank),
                                     "TEST_SIZE=" + std::to_string(size), "TEST_ID=" + as_digits(id)};
  variables.insert(variables.end(), environment.begin(), environment.end());
  for (char** inherited = environ; *inherited != nullptr; ++inherited)
    variables.emplace_back(*inherited);
  std::vector<char*> pointers;
  for (auto& text : variables)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  std::string program = "cuda_test", name = child_test;
  char* const arguments[] = {program.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failure =
      ::posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments, pointers.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  socket_ = ends[0];
  if (failure != 0)
    throw std::runtime_error("posix_spawn");
}

nccl_process::~nccl_process() {
  kill();
  ::close(socket_);
}

std::string nccl_process::hear() const {
  return hear_from(socket_);
}

bool nccl_process::says_something(int milliseconds) const {
  pollfd socket{socket_, POLLIN, 0};
  return ::poll(&socket, 1, milliseconds) == 1;
}

void nccl_process::kill() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  process_ = -1;
}

ncclUniqueId unique_id_of(const std::string& digits) {
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal && 2 * i + 1 < digits.size(); ++i)
    id.internal[i] = static_cast<char>((digits[2 * i] - 'a') << 4 | (digits[2 * i + 1] - 'a'));
  return id;
}

int nccl_process::wait() {
  tell_to(socket_, "end");
  int status = 0;
  const bool has_ended = ::waitpid(process_, &status, 0) == process_;
  process_ = -1;
  return has_ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

namespace {

/// Leaves two communicators, one with a kernel that waits for the other, and an unused unique id.
bool leave_all() {
  const auto id = new_unique_id();
  new_unique_id();
  nccl_rank peer(0, 2), own(1, 2);
  {
    const stand_in_driver gpu(0);
    peer.init_non_blocking(id);
  }
  return own.init(id) == ncclSuccess && own.reduce_anything() == ncclSuccess &&
         nccl().wait_for_kernels(1, 1, patience_ms) == 1;
}

} // namespace

// Scripts: "sum" says the sum of the ranks, each plus 1. "wait" says "ready" when it has a communicator. "hub" makes the
// unique id, tells it, and goes on like "wait". "hang" says "hangs" before it destroys or aborts its communicator, as
// FARANDOLE_FAKE_NCCL_HANG says, and "returned" behind it. "leave" says "leaves" when it has communicators that it never
// ends. All end when they hear a line.
void run_rank_process() {
  const auto script = variable_of("TEST_SCRIPT"), device = variable_of("TEST_DEVICE");
  const auto say = [](const std::string& line) { tell_to(STDIN_FILENO, line); };
  if (script == "leave") {
    say(leave_all() ? "leaves" : nccl().last_error(nullptr));
    hear_from(STDIN_FILENO);
    return;
  }
  nccl_rank own(std::atoi(variable_of("TEST_RANK").c_str()), std::atoi(variable_of("TEST_SIZE").c_str()),
                device.empty() ? -1 : std::atoi(device.c_str()));
  auto id = unique_id_of(variable_of("TEST_ID"));
  if (script == "hub") {
    id = new_unique_id();
    say(as_digits(id));
  }
  if (const auto text = differs(own.init(id), "init"); !text.empty()) {
    say(text);
    return;
  }
  if (script == "sum") {
    auto* memory = own.upload(std::vector<std::int64_t>{own.rank + 1});
    nccl().all_reduce(memory, memory, 1, ncclInt64, ncclSum, own.comm, own.stream);
    const auto sum = own.download<std::int64_t>(memory, 1).front();
    nccl().destroy(own.comm);
    say("sum " + std::to_string(sum));
  } else if (script == "hang") {
    say("hangs");
    const bool aborts = variable_of("FARANDOLE_FAKE_NCCL_HANG") == "abort";
    (aborts ? nccl().abort : nccl().destroy)(own.comm);
    say("returned");
  } else {
    say("ready");
  }
  hear_from(STDIN_FILENO);
}

} // namespace farandole
