// The stand-in for NCCL, as tests use it: ranks in threads, each with a device of the stand-in driver, and ranks in
// processes of their own.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda/driver/stand_in_testing.hpp"

namespace farandole {

/// The functions of the library, as C calls them.
struct stand_in_functions {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclCommInitRankConfig) init_rank_config;
  decltype(&ncclCommGetAsyncError) get_async_error;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommRevoke) revoke;
  decltype(&ncclCommCount) count;
  decltype(&ncclCommUserRank) user_rank;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  // For tests alone; see fake_nccl_testing.cpp.
  unsigned long (*calls)(const char*);
  unsigned long (*misuses)();
  unsigned (*communicators)();
  unsigned (*introductions)();
  unsigned long (*kernels_launched)();
  unsigned (*kernels_running)(int);
  unsigned (*kernels_unfinished)(int);
  int (*wait_for_kernels)(int, unsigned, unsigned);
};

/// Loads the stand-in driver and the stand-in for NCCL when it is called first.
const stand_in_functions& nccl();

/// An upper bound for events that happen at once in a test that passes, in milliseconds. Only a test that fails waits so long.
constexpr unsigned patience_ms = 240000;

/// Yields until the condition holds. False if it does not within the patience.
bool comes_true(const std::function<bool()>& condition);

ncclUniqueId new_unique_id();

/// A rank of a communicator, with a device and a stream. Used by one thread.
struct nccl_rank {
  int rank;
  int size;
  stand_in_driver gpu;
  CUstream stream;
  ncclComm_t comm = nullptr;

  /// The rank is the index of its device, unless another is given.
  nccl_rank(int rank, int size, int device = -1);

  ncclResult_t init(const ncclUniqueId& id) { return nccl().init_rank(&comm, size, id, rank); }
  ncclResult_t init_non_blocking(const ncclUniqueId& id);
  ncclResult_t state() const;
  /// Waits until the state is this.
  bool reaches(ncclResult_t expected) const {
    return comes_true([&] { return state() == expected; });
  }
  /// Device memory with these elements.
  template <class Element>
  std::byte* upload(const std::vector<Element>& elements) {
    auto* memory = gpu.device_memory(elements.size() * sizeof(Element));
    const auto* begin = reinterpret_cast<const std::byte*>(elements.data());
    stand_in_driver::write(memory, {begin, begin + elements.size() * sizeof(Element)});
    return memory;
  }
  /// Waits for the stream, and reads device memory.
  template <class Element>
  std::vector<Element> download(const std::byte* memory, std::size_t count) {
    synchronize();
    const auto bytes = stand_in_driver::read(memory, count * sizeof(Element));
    std::vector<Element> elements(count);
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  }
  void synchronize() const;
  bool is_idle() const { return stand_in_driver::is_idle(stream); }
  /// An all-reduce in place of one element, which the rank allocates.
  ncclResult_t reduce_anything();
};

/// Empty if the result is as expected; else a text for a failed test. For threads, in which nothing may be asserted.
std::string differs(ncclResult_t result, const std::string& place, ncclResult_t expected = ncclSuccess);

/// Runs `body` in a thread for each rank, with a communicator that is destroyed behind it. Returns the texts that the
/// bodies and calls returned; empty if all went well.
std::string run_ranks(int size, const std::function<std::string(nccl_rank&)>& body);

/// A child process that runs the hidden test "a rank in a process of its own" of this program. Killed with the object.
class nccl_process {
public:
  /// stand_in_nccl_testing.cpp lists the scripts.
  nccl_process(const std::string& script, int rank, int size, const ncclUniqueId& id,
               const std::vector<std::string>& environment = {});
  nccl_process(const nccl_process&) = delete;
  nccl_process& operator=(const nccl_process&) = delete;
  ~nccl_process();

  /// Its next line; empty if it has ended.
  std::string hear() const;
  /// Whether it says something, or ends, within this time.
  bool says_something(int milliseconds) const;
  void kill();
  /// Lets it end, and waits for that. Returns its exit code; -1 if it did not exit by itself.
  int wait();

private:
  pid_t process_ = -1;
  int socket_ = -1;
};

/// The unique id that a process with the script "hub" tells.
ncclUniqueId unique_id_of(const std::string& line);

/// The body of the child process.
void run_rank_process();

} // namespace farandole
