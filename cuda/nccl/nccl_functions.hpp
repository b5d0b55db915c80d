// The functions of NCCL that Farandole calls, looked up by name in the library that the process has loaded. Functions
// that NCCL has had from some version on are null before it.
#pragma once

#include <nccl.h>

#include <string>

#include "messages/values/error.hpp"

namespace farandole {

struct nccl_functions {
  std::string path; ///< of the library
  int version = 0;  ///< as NCCL codes it: 22809 is 2.28.9

  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&::ncclCommGetAsyncError) async_error = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  ncclResult_t (*revoke)(ncclComm_t communicator, int flags) = nullptr; ///< null before 2.28.7
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclAllReduce) allreduce = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclGetErrorString) error_text = nullptr;
  decltype(&::ncclGetLastError) last_error = nullptr;

  /// "ncclAllReduce failed: unhandled cuda error (…)", with the library's own account of its last error.
  error failure(const std::string& function, ncclResult_t result, ncclComm_t communicator = nullptr) const;
};

/// `library`: a handle of dlopen() that stays open. `unimplemented` if it lacks a function.
expected<nccl_functions> find_nccl_functions(void* library, const std::string& path, int version);

} // namespace farandole
