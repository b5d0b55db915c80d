// Reads the JSON that torch.profiler writes: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
// `ts` counts microseconds since `baseTimeNanoseconds`, which counts nanoseconds since 1970 by the system clock. The text
// is read once, from its beginning to its end, and takes memory for one event.
#pragma once

#include <cstdint>
#include <streambuf>

#include "tools/farandole/trace/profiler_event.hpp"

namespace farandole {

struct chrome_trace_limits {
  std::uint64_t text_bytes = std::uint64_t{4} << 30;   ///< of the whole text
  std::uint64_t value_bytes = std::uint64_t{16} << 20; ///< of one string or number
};

/// Passes the events to `visit` until the end of the text, or until the text is no JSON, or exceeds a limit.
profiler_facts read_chrome_trace(std::streambuf& text, const profiler_visitor& visit,
                                 const chrome_trace_limits& limits = {});

} // namespace farandole
