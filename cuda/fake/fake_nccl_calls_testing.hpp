// What every call of the stand-in for NCCL begins with: it is counted, the environment is read again, and the call fails
// if the environment says so. Needs no header of NCCL.
#pragma once

#include <string>

namespace fake_nccl {

/// Results of NCCL, for the part that is built without its header.
constexpr int success = 0, internal_error = 3, invalid_usage = 5;

/// Counts a call and reads the environment. The call must return the result if it is not `success`: it is
/// `internal_error` for a fault (see FARANDOLE_FAKE_NCCL_FAILS), and `invalid_usage` if the version that the stand-in
/// has is older than `since`, from which on NCCL has the function.
int enter(const char* function, int since = 0);

/// For faults inside of calls ("launch").
bool is_faulty(const char* place);
/// Whether FARANDOLE_FAKE_NCCL_HANG lists this call.
bool hangs(const char* call);
/// Never returns.
void hang();

/// The version code (FARANDOLE_FAKE_NCCL).
int version();
/// How many kernels a device runs at a time (FARANDOLE_FAKE_NCCL_RESIDENT), as the last call read it.
unsigned resident_kernels();

void set_last_error(const std::string& text);
std::string last_error();

/// For calls that NCCL's rules forbid, and which in NCCL end in a crash or in wrong results. Counted, and kept as the
/// last error.
void report_misuse(const std::string& text);

} // namespace fake_nccl
