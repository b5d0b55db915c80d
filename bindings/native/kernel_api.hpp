// The entry for kernels of frameworks: from threads without the GIL into the runtime that init() started. A call borrows
// the runtime until it returns, so no kernel ever holds the last reference to it.
#pragma once

#include <memory>

#include "bindings/native/process_runtime.hpp"
#include <farandole/kernel_api.h>

namespace farandole::native {

/// The table that kernel libraries connect to; it lives as long as the process.
const farandole_kernel_api& kernel_api();

/// Kernels submit to this runtime from now on, until it is closed or another one is opened to them.
void open_to_kernels(const std::shared_ptr<process_runtime>& running);

/// Waits for calls in progress; later ones are refused. Does nothing if kernels submit to another runtime.
void close_to_kernels(const process_runtime& ending);

} // namespace farandole::native
