#include "actors/event_loop/log.hpp"

#include <catch2/catch.hpp>

#include <regex>
#include <thread>
#include <vector>

#include "messages/settings/settings.hpp"

namespace farandole {
namespace {

struct captured {
  std::vector<std::pair<log_level, std::string>> lines;
  logger log;
  explicit captured(const log_options& options)
      : log(options, [this](log_level level, std::string_view line) { lines.emplace_back(level, line); }) {}
};

TEST_CASE("a log line has the time, level, source location, rank and text") {
  captured capture{{.level = log_level::trace}};
  capture.log.rank(3);
  capture.log.warning("stalled: {not a format} %v");
  REQUIRE(capture.lines.size() == 1);
  std::regex shape{
      R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: W log_test\.cpp:\d+\] \[3\]: stalled: \{not a format\} %v)"};
  CHECK(std::regex_match(capture.lines[0].second, shape));
}

TEST_CASE("control characters in a log text are escaped") {
  captured capture{{.level = log_level::trace, .hide_time = true}};
  capture.log.info("tensor a\x1b[2J\r is late");
  REQUIRE(capture.lines.size() == 1);
  CHECK(capture.lines[0].second.ends_with("tensor a\\x1b[2J\\r is late"));
}

TEST_CASE("the time can be hidden, and an unknown rank is left out") {
  captured capture{{.level = log_level::trace, .hide_time = true}};
  capture.log.info("hello");
  REQUIRE(capture.lines.size() == 1);
  CHECK(std::regex_match(capture.lines[0].second, std::regex{R"(\[I log_test\.cpp:\d+\]: hello)"}));
}

TEST_CASE("every level has its letter, and lines below the chosen level are dropped") {
  captured capture{{.level = log_level::debug, .hide_time = true}};
  capture.log.trace("x");
  capture.log.debug("x");
  capture.log.info("x");
  capture.log.warning("x");
  capture.log.error("x");
  capture.log.write(log_level::fatal, "x");
  std::string letters;
  for (const auto& [level, line] : capture.lines)
    letters += line[1];
  CHECK(letters == "DIWEF");
  CHECK_FALSE(capture.log.enabled(log_level::trace));
  CHECK(capture.log.enabled(log_level::debug));
}

TEST_CASE("level names are read in upper or lower case, and unknown names are refused") {
  CHECK(log_level_from("TRACE") == log_level::trace);
  CHECK(log_level_from("Warning") == log_level::warning);
  CHECK(log_level_from("fatal") == log_level::fatal);
  CHECK_FALSE(log_level_from("loud"));
  CHECK_FALSE(log_level_from(""));
}

TEST_CASE("lines that several threads write at once stay whole") {
  captured capture{{.level = log_level::info, .hide_time = true}};
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int k = 0; k < 500; ++k)
        capture.log.info("a line of text");
    });
  for (auto& writer : writers)
    writer.join();
  REQUIRE(capture.lines.size() == 2000);
  for (const auto& [level, line] : capture.lines)
    REQUIRE(line.ends_with("]: a line of text"));
}

TEST_CASE("repeated warnings are counted; the count is logged after a minute, or at the end") {
  std::chrono::steady_clock::time_point current_time{std::chrono::hours{1}};
  std::vector<std::string> lines;
  {
    logger log{
        {.level = log_level::info, .hide_time = true, .clock = [&current_time] { return current_time; }},
        [&lines](log_level, std::string_view line) { lines.emplace_back(line); }};
    const auto warn = [&log](int port) { log.warning("a stranger at port " + std::to_string(port)); };
    for (int port = 1000; port < 1100; ++port)
      warn(port);
    CHECK(lines.size() == 3);
    current_time += std::chrono::seconds{60};
    log.info("something else");
    REQUIRE(lines.size() == 5);
    CHECK_THAT(lines[3], Catch::StartsWith("[W log_test.cpp:"));
    CHECK_THAT(lines[3],
               Catch::EndsWith(": 97 more like this within 1 s; the last: a stranger at port 1099"));
    warn(2000);
    for (int i = 0; i < 10; ++i)
      warn(3000);
  }
  REQUIRE(lines.size() == 9);
  CHECK_THAT(lines[8], Catch::EndsWith(": 8 more like this within 1 s; the last: a stranger at port 3000"));
}

TEST_CASE("repeated lines at level info are all logged") {
  captured capture{{.level = log_level::trace, .hide_time = true}};
  for (int i = 0; i < 10; ++i)
    capture.log.info("rank " + std::to_string(i) + " started");
  CHECK(capture.lines.size() == 10);
}

TEST_CASE("in the JSON format each line is an object with the same fields, and the level still chooses the "
          "stream") {
  captured capture{{.level = log_level::info, .format = log_format::json}};
  capture.log.info("before the start");
  capture.log.rank(3);
  capture.log.error("stalled: {not a format} %v\nsecond line");
  capture.log.debug("dropped");
  REQUIRE(capture.lines.size() == 2);
  const std::string time = R"(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",)";
  CHECK(capture.lines[0].first == log_level::info);
  CHECK(std::regex_match(
      capture.lines[0].second,
      std::regex{time + R"("level":"info","file":"log_test\.cpp","line":\d+,"text":"before the start"\})"}));
  CHECK(capture.lines[1].first == log_level::error);
  CHECK(std::regex_match(capture.lines[1].second,
                         std::regex{time + R"("level":"error","file":"log_test\.cpp","line":\d+,"rank":3,)" +
                                    R"("text":"stalled: \{not a format\} %v\\nsecond line"\})"}));
}

TEST_CASE("in the JSON format a line for repeated lines has their count, and the time can be hidden") {
  std::vector<std::string> lines;
  {
    logger log{{.level = log_level::info, .hide_time = true, .format = log_format::json},
               [&lines](log_level, std::string_view line) { lines.emplace_back(line); }};
    for (int port = 1000; port < 1100; ++port)
      log.warning("a stranger at port " + std::to_string(port));
  }
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[2], Catch::StartsWith(R"({"level":"warning","file":"log_test.cpp",)") &&
                           Catch::EndsWith(R"("text":"a stranger at port 1002"})"));
  CHECK_THAT(lines[3], Catch::StartsWith(R"({"level":"warning","file":"log_test.cpp",)") &&
                           Catch::Contains(R"("text":"97 more like this within )") &&
                           Catch::EndsWith(R"(; the last: a stranger at port 1099","repetitions":97})"));
}

TEST_CASE("the settings choose the level, the format and whether the time is hidden") {
  auto values = settings::built_in();
  CHECK(log_options_of(values).format == log_format::text);
  REQUIRE_FALSE(values.assign(setting::log_format, "json", setting_source::environment));
  REQUIRE_FALSE(values.assign(setting::log_level, "debug", setting_source::environment));
  REQUIRE_FALSE(values.assign(setting::log_hide_time, "1", setting_source::environment));
  const auto options = log_options_of(values);
  CHECK(options.format == log_format::json);
  CHECK(options.level == log_level::debug);
  CHECK(options.hide_time);
}

} // namespace
} // namespace farandole
