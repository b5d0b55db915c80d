// Reads the file *.xplane.pb that the profiler of TensorFlow and JAX writes: a message XSpace of tsl/profiler/protobuf/
// xplane.proto, https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto. Lines of
// events count from the start of the profile, whose time since 1970, `profile_start_time`, is in the plane
// "Task Environment". Only the fields that a trace shows are decoded.
#pragma once

#include <cstddef>
#include <span>

#include "tools/farandole/trace/profiler_event.hpp"

namespace farandole {

/// Passes the events to `visit`, with the name of each thread before the events of the thread.
profiler_facts read_xspace(std::span<const std::byte> bytes, const profiler_visitor& visit);

} // namespace farandole
