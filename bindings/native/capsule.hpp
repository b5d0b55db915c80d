// Gives frameworks access to bytes that the core owns, without a copy: as a DLPack capsule or a NumPy array that
// keeps the owner of the bytes alive.
#pragma once

#include "bindings/native/nanobind.hpp"

#include "bindings/cxx/runtime.hpp"
#include "collectives/transport/shm/result_memory.hpp"

namespace farandole::native {

/// The result bytes of a settled operation as an array of this type and shape.
nanobind::object capsule_of(farandole::handle operation, dtype type, shape extents);

/// `elements` uninitialised elements, which the array owns. Raises MemoryError if there is no memory.
nanobind::object capsule_of(result_memory& from, dtype type, std::int64_t elements);

/// The result as a writable NumPy array; NumPy treats arrays from capsules of this kind as read-only. bfloat16, which
/// NumPy lacks, becomes uint16.
nanobind::object array_of(farandole::handle operation, dtype type, const shape& extents);

} // namespace farandole::native
