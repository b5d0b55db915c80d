// A stand-in for NCCL, libnccl.so.2, between threads and processes of one host, over the stand-in driver. This file has
// all that it can do without NCCL's header. Each call reads these environment variables:
//
//   FARANDOLE_FAKE_NCCL           version code (22809). With 0, ncclGetVersion fails. Functions and types that NCCL has
//                                 since a later version are refused with ncclInvalidUsage or ncclInvalidArgument
//   FARANDOLE_FAKE_NCCL_FAILS     calls that fail, with commas between them: NAME fails always, NAME:N from its N-th
//                                 call after this variable was changed. Functions fail with ncclInternalError. "launch"
//                                 is the launch of a kernel, and fails with ncclUnhandledCudaError
//   FARANDOLE_FAKE_NCCL_HANG      calls that hang until the process ends, with commas between them: "init" (a
//                                 non-blocking communicator stays in progress), "abort", "destroy"
//   FARANDOLE_FAKE_NCCL_RESIDENT  number of kernels that a device runs at a time (no limit)
//   FARANDOLE_FAKE_NCCL_POLLS     how many calls of ncclCommGetAsyncError report ncclInProgress after a call of a
//                                 non-blocking communicator (1). The next launches its kernels
//   NCCL_HOSTID                   as in NCCL: a name of the host (its boot id)
//
// For tests alone, it exports fakeNcclCalls, fakeNcclMisuses, fakeNcclCommunicators, fakeNcclIntroductions,
// fakeNcclKernelsLaunched, fakeNcclKernelsRunning, fakeNcclKernelsUnfinished and fakeNcclWaitForKernels.
#include "cuda/fake/fake_nccl_calls_testing.hpp"

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  const int result = fake_nccl::enter("ncclGetVersion");
  *version = fake_nccl::version();
  if (result != fake_nccl::success)
    return result;
  return *version != 0 ? 0 : 1;
}
