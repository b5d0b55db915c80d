// What the C interface's opaque types are, for those who make them from something that they have already.
#pragma once

#include <atomic>
#include <memory>

#include "bindings/cxx/farandole.hpp"

struct farandole_runtime {
  std::shared_ptr<farandole::runtime> member;
};

struct farandole_handle {
  farandole::handle operation;
  std::atomic<bool> has_callback = false;
};
