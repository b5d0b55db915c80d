// Gives bytes that the core owns to a framework, uncopied: a DLPack capsule that keeps the operation's handle
// alive.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/cxx/farandole.hpp"

namespace farandole::native {

/// The result bytes of a settled operation as an array of this type and shape.
nanobind::object capsule_of(farandole::handle operation, dtype type, shape extents);

} // namespace farandole::native
