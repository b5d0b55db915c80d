#include "actors/event_loop/log_line.hpp"

#include <catch2/catch.hpp>

namespace farandole {
namespace {

using std::chrono::microseconds;
using std::chrono::system_clock;

log_line line_of(std::string_view text) {
  log_line line;
  line.level = "warning";
  line.file = "/src/actors/member/member.cpp";
  line.line = 12;
  line.text = text;
  return line;
}

TEST_CASE("an object of JSON holds the fields that are known") {
  auto line = line_of("rank 1 is late");
  CHECK(json_of(line) == R"({"level":"warning","file":"member.cpp","line":12,"text":"rank 1 is late"})");
  line.time = system_clock::time_point{microseconds{1'795'707'000'001'234}};
  line.rank = 0;
  line.repetitions = 97;
  CHECK(json_of(line) ==
        R"({"time":"2026-11-26T15:30:00.001234Z","level":"warning","file":"member.cpp","line":12,)"
        R"("rank":0,"text":"rank 1 is late","repetitions":97})");
}

TEST_CASE("a time keeps its leading zeros, and times before 1970 are valid") {
  auto line = line_of("");
  line.time = system_clock::time_point{};
  CHECK(json_of(line).find(R"("time":"1970-01-01T00:00:00.000000Z")") != std::string::npos);
  line.time = system_clock::time_point{microseconds{-1}};
  CHECK(json_of(line).find(R"("time":"1969-12-31T23:59:59.999999Z")") != std::string::npos);
}

TEST_CASE("quotes, line breaks, control characters and bytes that are no UTF-8 are escaped in JSON") {
  const auto text_of = [](std::string_view text) {
    const auto object = json_of(line_of(text));
    const auto begin = object.find(R"("text":)") + 7;
    return object.substr(begin, object.size() - begin - 1);
  };
  CHECK(text_of(R"(a "b" \c)") == R"("a \"b\" \\c")");
  CHECK(text_of("two\nlines\tand a tab") == R"("two\nlines\tand a tab")");
  CHECK(text_of(std::string_view("\0\x1b[2J\r\x7f", 7)) == R"("\\x00\\x1b[2J\\r\\x7f")");
  CHECK(text_of("Z\xc3\xbcrich \xe2\x82\xac") == "\"Z\xc3\xbcrich \xe2\x82\xac\"");
  CHECK(text_of("\xff\xc3(") == R"("\\xff\\xc3(")");
}

TEST_CASE("the file of a log line is shown without its folders") {
  auto line = line_of("x");
  line.file = "member.cpp";
  CHECK(json_of(line).find(R"("file":"member.cpp")") != std::string::npos);
}

} // namespace
} // namespace farandole
