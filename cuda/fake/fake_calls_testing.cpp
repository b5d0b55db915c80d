#include "cuda/fake/fake_calls_testing.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "cuda/fake/fake_streams_testing.hpp"

namespace fake {

namespace {

constexpr std::string_view allocations[] = {"cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc"};

/// The counts of calls, and the faults that FARANDOLE_FAKE_CUDA_FAILS lists. Never destroyed: other threads may call
/// the driver while the process ends.
struct counts {
  std::mutex mutex;
  std::map<std::string, unsigned long, std::less<>> calls;
  std::string faults;
  std::map<std::string, unsigned long, std::less<>> faulty_calls; ///< since `faults` was set
};

counts& counted() {
  static auto& all = *new counts;
  return all;
}

std::atomic<bool> stuck{false}, manual{false};
/// The process that called cuInit first; 0: none. The driver is of no use after a fork.
std::atomic<pid_t> initialised_by{0};

std::string_view text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

/// Whether this call of a function is listed: "cuInit,cuMemHostAlloc:2" lists all calls of the first, and those from
/// the second on of the other.
bool is_faulty(std::string_view faults, std::string_view function, unsigned long call) {
  while (!faults.empty()) {
    const auto end = std::min(faults.find(','), faults.size());
    const auto fault = faults.substr(0, end);
    const auto colon = std::min(fault.find(':'), fault.size());
    if (fault.substr(0, colon) == function)
      return colon == fault.size() || call >= std::stoul(std::string(fault.substr(colon + 1)));
    faults.remove_prefix(std::min(end + 1, faults.size()));
  }
  return false;
}

} // namespace

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

bool lacks(const char* function) {
  return text_of("FARANDOLE_FAKE_CUDA_LACKS") == function;
}

bool is_stuck() {
  return stuck;
}

bool is_manual() {
  return manual;
}

bool is_forked() {
  return initialised_by != 0 && initialised_by != ::getpid();
}

CUresult enter(const char* function) {
  if (is_forked())
    return CUDA_ERROR_NOT_INITIALIZED;
  if (std::string_view(function) == "cuInit")
    initialised_by = ::getpid();
  const bool is_stuck = number("FARANDOLE_FAKE_CUDA_STUCK", 0) != 0;
  const bool is_manual = text_of("FARANDOLE_FAKE_CUDA_STREAMS") == "manual";
  if (stuck.exchange(is_stuck) != is_stuck || manual.exchange(is_manual) != is_manual)
    wake_streams();
  auto& all = counted();
  const std::lock_guard lock(all.mutex);
  ++all.calls[function];
  if (const auto faults = text_of("FARANDOLE_FAKE_CUDA_FAILS"); faults != all.faults) {
    all.faults = faults;
    all.faulty_calls.clear();
  }
  if (!is_faulty(all.faults, function, ++all.faulty_calls[function]))
    return CUDA_SUCCESS;
  return std::ranges::find(allocations, function) != std::end(allocations) ? CUDA_ERROR_OUT_OF_MEMORY
                                                                           : CUDA_ERROR_UNKNOWN;
}

} // namespace fake

/// How often a function was called in this process.
extern "C" __attribute__((visibility("default"))) unsigned long fakeCalls(const char* function) {
  auto& all = fake::counted();
  const std::lock_guard lock(all.mutex);
  const auto found = all.calls.find(function);
  return found != all.calls.end() ? found->second : 0;
}
