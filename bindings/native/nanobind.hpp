// nanobind without its checks for the GIL at each change of a reference count, which take 5 % of a small operation; builds
// with sanitizers keep them. Our own assertions stay, so the macro that removes both is defined for nanobind's headers
// alone.
#pragma once

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NDEBUG
#endif
#include <nanobind/nanobind.h>
#undef NDEBUG
#include <cassert>
