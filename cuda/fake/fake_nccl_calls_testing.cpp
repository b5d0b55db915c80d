#include "cuda/fake/fake_nccl_calls_testing.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include <unistd.h>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake_nccl {

namespace {

constexpr int newest_known = 22809;
constexpr unsigned no_limit = 1000000;

/// Never destroyed: other threads may call NCCL while the process ends.
struct counts {
  std::mutex mutex;
  std::map<std::string, unsigned long, std::less<>> calls;
  std::string faults;                                             ///< FARANDOLE_FAKE_NCCL_FAILS
  std::map<std::string, unsigned long, std::less<>> faulty_calls; ///< since `faults` was set
  std::string last_error;
  unsigned long misuses = 0;
};

counts& counted() {
  static auto& all = *new counts;
  return all;
}

std::atomic<unsigned> resident{no_limit};

std::string_view text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

/// Calls `visit` with each item of a list with commas, until it returns true. Returns whether it did.
template <class Visitor>
bool any_item(std::string_view list, Visitor visit) {
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    if (visit(list.substr(0, end)))
      return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// "NAME" lists all calls, "NAME:N" those from the N-th on.
bool lists(std::string_view fault, std::string_view name, unsigned long call) {
  const auto colon = std::min(fault.find(':'), fault.size());
  return fault.substr(0, colon) == name &&
         (colon == fault.size() || call >= std::stoul(std::string(fault.substr(colon + 1))));
}

} // namespace

bool is_faulty(const char* place) {
  auto& all = counted();
  const std::lock_guard lock(all.mutex);
  if (const auto faults = text_of("FARANDOLE_FAKE_NCCL_FAILS"); faults != all.faults) {
    all.faults = faults;
    all.faulty_calls.clear();
  }
  const auto call = ++all.faulty_calls[place];
  return any_item(all.faults, [&](std::string_view fault) { return lists(fault, place, call); });
}

int enter(const char* function, int since) {
  const auto limit = text_of("FARANDOLE_FAKE_NCCL_RESIDENT");
  resident = limit.empty() ? no_limit : static_cast<unsigned>(std::stoul(std::string(limit)));
  {
    auto& all = counted();
    const std::lock_guard lock(all.mutex);
    ++all.calls[function];
  }
  if (since > version()) {
    set_last_error(std::string(function) + ": NCCL has it from version code " + std::to_string(since) +
                   " on, and this stand-in has " + std::to_string(version()));
    return invalid_usage;
  }
  if (is_faulty(function)) {
    set_last_error(std::string(function) + ": fails, as FARANDOLE_FAKE_NCCL_FAILS says");
    return internal_error;
  }
  return success;
}

bool hangs(const char* call) {
  return any_item(text_of("FARANDOLE_FAKE_NCCL_HANG"), [&](std::string_view item) { return item == call; });
}

void hang() {
  for (;;)
    ::pause();
}

int version() {
  const auto text = text_of("FARANDOLE_FAKE_NCCL");
  return text.empty() ? newest_known : std::atoi(std::string(text).c_str());
}

unsigned resident_kernels() {
  return resident;
}

void set_last_error(const std::string& text) {
  auto& all = counted();
  const std::lock_guard lock(all.mutex);
  all.last_error = text;
}

std::string last_error() {
  auto& all = counted();
  const std::lock_guard lock(all.mutex);
  return all.last_error;
}

void report_misuse(const std::string& text) {
  auto& all = counted();
  const std::lock_guard lock(all.mutex);
  ++all.misuses;
  all.last_error = text;
}

} // namespace fake_nccl

/// How often a function was called in this process.
FAKE unsigned long fakeNcclCalls(const char* function) {
  auto& all = fake_nccl::counted();
  const std::lock_guard lock(all.mutex);
  const auto found = all.calls.find(function);
  return found != all.calls.end() ? found->second : 0;
}

/// How many calls broke a rule whose breach NCCL does not report: a communicator that was used after its end, or calls
/// of ranks that do not match. ncclGetLastError has the text of the last.
FAKE unsigned long fakeNcclMisuses() {
  auto& all = fake_nccl::counted();
  const std::lock_guard lock(all.mutex);
  return all.misuses;
}
