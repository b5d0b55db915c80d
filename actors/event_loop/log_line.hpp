// One line of the log as one object of JSON, for programs that collect logs. log.hpp states the form of a line of text.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farandole {

struct log_line {
  std::optional<std::chrono::system_clock::time_point> time; ///< omitted if empty
  std::string_view level;
  std::string_view file; ///< of the statement that logs the line; its folders are omitted
  std::uint32_t line = 0;
  std::int32_t rank = -1; ///< omitted if negative
  std::string_view text;
  std::size_t repetitions = 0; ///< number of lines that this one stands for; omitted if 0
};

/// {"time":"2026-11-26T15:30:00.123456Z","level":"warning","file":"member.cpp","line":12,"rank":0,"text":"…",
/// "repetitions":97} without line breaks. The time is in UTC (RFC 3339). The texts may hold any bytes:
/// control characters and bytes that are no UTF-8 are escaped.
std::string json_of(const log_line& line);

} // namespace farandole
