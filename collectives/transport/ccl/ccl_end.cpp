#include "collectives/transport/ccl/ccl_end.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "collectives/transport/ccl/ccl_start.hpp"

namespace farandole {

struct ccl_end::meeting {
  ccl::shared_ptr_class<ccl::kvs> store;
  std::optional<ccl::communicator> members;
  std::string problem;
  std::atomic<bool> over{false};
};

struct ccl_end::memory {
  explicit memory(std::size_t wanted) : bytes(wanted), first(operator new(wanted, alignment)) {}
  ~memory() { operator delete(first, alignment); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  static constexpr std::align_val_t alignment{64};
  const std::size_t bytes;
  void* const first;
};

namespace {

/// Set when an operation or a thread was abandoned. Every wait in oneCCL makes progress on all operations
/// ever started in the process, including abandoned ones, so no new ccl_end may be opened afterwards.
std::atomic<bool> left_behind{false};

constexpr const char* used_up = "oneCCL was left in the middle of something in this process, which cannot be "
                                "taken back; start the process anew, or use another path";

/// Paces the polling of a wait: often at first, because most waits are short.
class patience {
public:
  explicit patience(const farandole_path_limits& deadline) : deadline_(deadline) {}

  /// Pauses between two polls. Returns OK if the caller should poll again, otherwise why the wait must end.
  ccl_outcome pause(const char* message) {
    if (__atomic_load_n(deadline_.abort_word, __ATOMIC_ACQUIRE) != 0)
      return {FARANDOLE_PATH_LOST, "it was told to give up"};
    const auto current_time = std::chrono::steady_clock::now().time_since_epoch();
    if (std::chrono::nanoseconds(current_time).count() >= deadline_.deadline_nanoseconds)
      return {FARANDOLE_PATH_LATE, message};
    if (++looks_ < yields)
      ::sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return {};
  }

private:
  static constexpr int yields = 2000;
  const farandole_path_limits& deadline_;
  int looks_ = 0;
};

} // namespace

ccl_end::ccl_end(const farandole_path_set& set)
    : set_(set), unusable_(left_behind ? used_up : start_oneccl(set)), meeting_(std::make_shared<meeting>()) {
  if (!unusable_.empty() || set.rank != 0)
    return;
  try {
    meeting_->store = ccl::create_main_kvs();
  } catch (const std::exception& problem) {
    unusable_ = std::string("members cannot meet here: ") + problem.what();
  }
}

/// Leaks the communicator. Its destructor would contact rank 0 to say that it leaves, and would terminate
/// the process if rank 0 did not answer.
ccl_end::~ccl_end() {
  new std::shared_ptr<meeting>(meeting_);
}

std::string ccl_end::address() const {
  if (!meeting_->store)
    return {};
  const auto address = meeting_->store->get_address();
  return {address.begin(), address.end()};
}

ccl_outcome ccl_end::meet(const std::string& store_address, const farandole_path_limits& deadline) {
  ccl::kvs::address_type address;
  if (store_address.size() != address.size())
    return {FARANDOLE_PATH_BROKEN,
            "rank " + std::to_string(set_.global_ranks[0]) + " did not say where members meet"};
  std::copy(store_address.begin(), store_address.end(), address.begin());
  std::thread([met = meeting_, address, rank = set_.rank, members = set_.members] {
    pthread_setname_np(pthread_self(), "fd-ccl");
    try {
      if (!met->store)
        met->store = ccl::create_kvs(address);
      met->members = ccl::create_communicator(members, rank, met->store);
    } catch (const std::exception& problem) {
      met->problem = problem.what();
    }
    met->over = true;
  }).detach();
  patience wait(deadline);
  while (!meeting_->over)
    if (auto given_up = wait.pause("the members did not meet in time");
        given_up.status != FARANDOLE_PATH_OK) {
      left_behind = true;
      return given_up;
    }
  if (!meeting_->members)
    return {FARANDOLE_PATH_BROKEN, "the members cannot meet: " + meeting_->problem};
  return {};
}

std::byte* ccl_end::staging(std::size_t bytes) {
  if (!memory_ || memory_->bytes < bytes) {
    memory_.reset();
    memory_ = std::make_unique<memory>(std::max(bytes, std::size_t{4096}));
  }
  return static_cast<std::byte*>(memory_->first);
}

ccl_outcome ccl_end::run(const operation& begin, const farandole_path_limits& deadline) {
  // On the heap, so that it can be leaked.
  auto begun = std::make_unique<ccl::event>();
  ccl_outcome outcome;
  try {
    *begun = begin(*meeting_->members);
    patience wait(deadline);
    while (!begun->test())
      if (outcome = wait.pause("an operation was not done in time"); outcome.status != FARANDOLE_PATH_OK)
        break;
  } catch (const std::exception& problem) {
    outcome = {FARANDOLE_PATH_LOST, std::string("oneCCL says: ") + problem.what()};
  }
  if (outcome.status != FARANDOLE_PATH_OK) {
    left_behind = true;
    static_cast<void>(begun.release());
    static_cast<void>(memory_.release());
  }
  return outcome;
}

} // namespace farandole
