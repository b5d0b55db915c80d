// nanobind without its checks for the GIL at each change of a reference count, which take 5 % of a small operation. Our own
// assertions stay, so the macro that removes both is defined for nanobind's headers alone.
#pragma once

#define NDEBUG
#include <nanobind/nanobind.h>
#undef NDEBUG
#include <cassert>
