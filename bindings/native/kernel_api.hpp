// The entry for kernels of frameworks: from threads without the GIL into the one job that init() made. A call borrows
// the job until it returns, so no kernel ever holds the last reference to the job.
#pragma once

#include <memory>

#include "bindings/native/job.hpp"
#include <farandole/kernel_api.h>

namespace farandole::native {

/// The table that kernel libraries connect to; it lives as long as the process.
const farandole_kernel_api& kernel_api();

/// Kernels submit to this job from now on, until it is closed or another one is opened to them.
void open_to_kernels(const std::shared_ptr<job>& running);

/// Waits for calls in progress; later ones are refused. Does nothing if kernels submit to another job.
void close_to_kernels(const job& ending);

} // namespace farandole::native
