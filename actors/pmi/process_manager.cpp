#include "actors/pmi/process_manager.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "actors/pmi/pmi1_client.hpp"
#include "actors/pmi/pmix_client.hpp"

namespace farandole {
namespace {

/// Limit for the farewell when the process ends.
constexpr std::chrono::seconds finish_patience{5};

struct of_this_process {
  std::mutex guard;
  process_manager* manager = nullptr; ///< never destroyed: a thread may be inside the PMIx library at the end
  pid_t process = 0;
};

of_this_process& shared() {
  static auto* entry = new of_this_process;
  return *entry;
}

void finish_at_exit() {
  // The connection of a forked child belongs to its parent.
  if (shared().process == ::getpid())
    shared().manager->finish(std::chrono::steady_clock::now() + finish_patience);
}

expected<std::unique_ptr<process_manager>> connect(const foreign_launch& launch,
                                                   process_manager::time_point deadline) {
  if (launch.by == gathering::pmix)
    return pmix_client::connect(deadline);
  if (launch.rank < 0 || launch.rank >= launch.size)
    return error{error_kind::precondition, "PMI_RANK and PMI_SIZE do not name a rank below the size"};
  int number = -1;
  const auto& text = launch.channel;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0)
    return error{error_kind::precondition, "PMI_FD=" + text + " is no number of a descriptor"};
  return pmi1_client::connect(number, launch.rank, launch.size, deadline);
}

} // namespace

expected<process_manager*> process_manager_of(const foreign_launch& launch,
                                              process_manager::time_point deadline) {
  auto& of_this_process = shared();
  const std::lock_guard lock(of_this_process.guard);
  if (of_this_process.manager != nullptr && of_this_process.process != ::getpid())
    return error{
        error_kind::precondition,
        "this process was forked from one that had called init(), to which the connection to the process "
        "manager belongs"};
  if (of_this_process.manager != nullptr)
    return of_this_process.manager;
  auto manager = connect(launch, deadline);
  if (!manager)
    return manager.error();
  of_this_process.manager = manager->release();
  of_this_process.process = ::getpid();
  std::atexit(finish_at_exit);
  return of_this_process.manager;
}

} // namespace farandole
