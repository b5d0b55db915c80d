// Where kernels of frameworks get in: on threads without the GIL, into the one job that init() made. The job
// is lent for the length of a call only, so that no kernel ever holds the last reference to it.
#pragma once

#include <memory>

#include "bindings/native/job.hpp"
#include <farandole/kernel_api.h>

namespace farandole::native {

/// What kernel libraries connect to; lives as long as the process.
const farandole_kernel_api& kernel_api();

/// Kernels submit to this job from now on, until it is closed or another one is opened to them.
void open_to_kernels(const std::shared_ptr<job>& running);

/// Waits for calls that are under way; later ones are refused. Nothing if kernels submit to another job.
void close_to_kernels(const job& ending);

} // namespace farandole::native
