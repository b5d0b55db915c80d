// The log. A line has the form "[time: LEVEL file:line] [rank]: text", or is an object of JSON (log_line.hpp). Levels up
// to INFO go to standard output, levels from WARNING on go to standard error. There is no global registry: each runtime
// owns a logger and passes pointers to its components. Repeated warnings and errors are counted instead of logged
// (repetition_limit.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace farandole {

class settings;

enum class log_level : std::uint8_t { trace, debug, info, warning, error, fatal, off };

enum class log_format : std::uint8_t { text, json };

/// Parses "trace" … "fatal" or "off", in any case. Returns nothing for other texts.
std::optional<log_level> log_level_from(std::string_view text);

struct log_options {
  log_level level = log_level::warning; ///< lines of lower levels are dropped
  bool hide_time = false;
  log_format format = log_format::text;
  /// The clock by which repeated lines are counted.
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// The options that the settings ask for.
log_options log_options_of(const settings& values);

/// Thread-safe.
class logger {
public:
  explicit logger(const log_options& options = {});
  /// Passes complete lines (without the newline) to `target` instead of the standard streams: for tests and for tools
  /// with their own output.
  logger(const log_options& options, std::function<void(log_level, std::string_view line)> target);
  ~logger();
  logger(const logger&) = delete;
  logger& operator=(const logger&) = delete;

  /// Sets the rank that lines show. It is known only after init(); earlier lines show none. -1 removes it again.
  void rank(std::int32_t value) { rank_.store(value, std::memory_order_relaxed); }
  bool enabled(log_level level) const;

  void write(log_level level, std::string_view text,
             std::source_location from = std::source_location::current());

  void trace(std::string_view text, std::source_location from = std::source_location::current()) {
    write(log_level::trace, text, from);
  }
  void debug(std::string_view text, std::source_location from = std::source_location::current()) {
    write(log_level::debug, text, from);
  }
  void info(std::string_view text, std::source_location from = std::source_location::current()) {
    write(log_level::info, text, from);
  }
  void warning(std::string_view text, std::source_location from = std::source_location::current()) {
    write(log_level::warning, text, from);
  }
  void error(std::string_view text, std::source_location from = std::source_location::current()) {
    write(log_level::error, text, from);
  }
  /// Logs the text, then aborts the process.
  [[noreturn]] void fatal(std::string_view text, std::source_location from = std::source_location::current());

private:
  struct repetitions;

  void write_line(log_level level, std::string_view text, std::string_view file, std::uint32_t line,
                  std::size_t repetition_count);

  const bool hide_time_;
  const log_format format_;
  std::atomic<std::int32_t> rank_{-1};
  std::unique_ptr<spdlog::logger> sink_;
  std::unique_ptr<repetitions> repetitions_;
};

} // namespace farandole
