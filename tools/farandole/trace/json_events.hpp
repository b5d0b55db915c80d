// Writes the objects of Chrome's trace format: the text between the brackets of its `traceEvents`.
// The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/farandole/trace/profiler_event.hpp"

namespace farandole {

/// Where an event is shown, and its time on the axis of all ranks.
struct trace_position {
  std::size_t rank = 0; ///< number of the process in the trace
  std::uint32_t thread = 0;
  std::chrono::nanoseconds time{0};
};

/// A field of an object.
std::string field(const char* name, std::uint64_t value);

/// Times are in microseconds since `start`, with three decimals. `arguments` are the fields of an object, or empty.
class json_events {
public:
  explicit json_events(std::chrono::nanoseconds start) : start_(start) {}

  void name_process(std::size_t process, const std::string& name);
  void name_thread(std::size_t process, std::uint32_t thread, const std::string& name);
  void slice(const trace_position& begin, std::chrono::nanoseconds end, const std::string& name,
             const std::string& arguments = {});
  void instant(const trace_position& at, const std::string& name, const std::string& arguments = {});
  void counter(std::size_t process, std::chrono::nanoseconds time, const char* name, double value);
  /// From the slice around one position to the slice around the other.
  void arrow(const trace_position& from, const trace_position& to, const char* name);
  /// An event of a profiler, at another position than in its file. `id`: from next_id().
  void copy(const profiler_event& original, const trace_position& at, std::chrono::nanoseconds end,
            std::uint64_t id);

  /// A number that no other arrow of the trace has.
  std::uint64_t next_id() { return ++ids_; }
  /// The text since the last call.
  std::string take();
  std::size_t size() const { return text_.size(); }

private:
  void open(char phase, std::size_t process, std::uint32_t thread = 0,
            std::optional<std::chrono::nanoseconds> time = {});
  void close(const std::string& arguments);

  std::chrono::nanoseconds start_;
  std::string text_;
  bool is_first_ = true;
  std::uint64_t ids_ = 0;
};

} // namespace farandole
