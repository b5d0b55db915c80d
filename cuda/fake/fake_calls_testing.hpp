// What every call of the stand-in driver begins with: it is counted, and fails if the environment says so.
#pragma once

#include <cuda.h>

namespace fake {

/// Counts a call of `function` (its name without a version), and reads the environment again. The call must return the
/// result if that is not CUDA_SUCCESS.
CUresult enter(const char* function);

/// Whether the environment says that the driver does not have this function.
bool lacks(const char* function);

/// The value of an environment variable, or `otherwise`.
int number(const char* variable, int otherwise);

/// Whether this process is a child of the one that initialised the driver.
bool is_forked();

/// No stream makes progress (FARANDOLE_FAKE_CUDA_STUCK).
bool is_stuck();

/// Streams run only in fakeStreamRun (FARANDOLE_FAKE_CUDA_STREAMS=manual).
bool is_manual();

} // namespace fake
