// The definitions of the C interface's opaque types, for code that wraps C++ objects in them, and the conversion of
// an error to a status and a text.
#pragma once

#include <atomic>
#include <memory>

#include <farandole/farandole.h>

#include "bindings/cxx/runtime.hpp"

struct farandole_runtime {
  std::shared_ptr<farandole::runtime> member;
};

struct farandole_handle {
  farandole::handle operation;
  std::atomic<bool> has_callback = false;
};

namespace farandole {

/// Returns the status of `problem`, and copies its text to `reason` if that is not null. A text that is too long is
/// cut between two characters.
farandole_status report(const error& problem, farandole_error* reason);

} // namespace farandole
