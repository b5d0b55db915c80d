// What the C interface's opaque types are, for those that make them from something that they have already, and
// how an error becomes a status and a text.
#pragma once

#include <atomic>
#include <memory>

#include <farandole/farandole.h>
#include <farandole/farandole.hpp>

struct farandole_runtime {
  std::shared_ptr<farandole::runtime> member;
};

struct farandole_handle {
  farandole::handle operation;
  std::atomic<bool> has_callback = false;
};

namespace farandole {

/// The status of a problem; its text goes to `why`, if that is not null, cut between two characters where it
/// is too long.
farandole_status report(const error& problem, farandole_error* reason);

} // namespace farandole
