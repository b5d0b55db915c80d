// Gives bytes that the core owns to a framework, uncopied: a DLPack capsule or a NumPy array that keeps alive
// what owns them.
#pragma once

#include <nanobind/nanobind.h>

#include "collectives/transport/shm/result_memory.hpp"
#include <farandole/farandole.hpp>

namespace farandole::native {

/// The result bytes of a settled operation as an array of this type and shape.
nanobind::object capsule_of(farandole::handle operation, dtype type, shape extents);

/// So many elements of any content, which the array owns. MemoryError where there is none.
nanobind::object capsule_of(result_memory& from, dtype type, std::int64_t elements);

/// The result as a NumPy array that may be written to, which capsules of this kind are not to NumPy.
/// bfloat16, which NumPy lacks, comes as uint16.
nanobind::object array_of(farandole::handle operation, dtype type, const shape& extents);

} // namespace farandole::native
