#include "actors/event_loop/log_line.hpp"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <ctime>
#include <iterator>

#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

// printable() leaves valid UTF-8.
std::string quoted(std::string_view text) {
  return json_text(printable(text));
}

std::string rfc_3339(std::chrono::system_clock::time_point time) {
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(time - second);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     rest.count());
}

} // namespace

std::string json_of(const log_line& line) {
  std::string object = "{";
  auto end = std::back_inserter(object);
  if (line.time)
    fmt::format_to(end, R"("time":"{}",)", rfc_3339(*line.time));
  const auto file = line.file.substr(line.file.rfind('/') + 1); // npos + 1 is 0
  fmt::format_to(end, R"("level":"{}","file":{},"line":{})", line.level, quoted(file), line.line);
  if (line.rank >= 0)
    fmt::format_to(end, R"(,"rank":{})", line.rank);
  fmt::format_to(end, R"(,"text":{})", quoted(line.text));
  if (line.repetitions > 0)
    fmt::format_to(end, R"(,"repetitions":{})", line.repetitions);
  return object + "}";
}

} // namespace farandole
