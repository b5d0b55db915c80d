#include "elastic/discovery.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

std::vector<host_slots> hosts_of(std::string_view printed, std::optional<std::int32_t> slots = {}) {
  const auto result = parse_discovery(printed, slots);
  if (!result)
    FAIL(result.error().text);
  CHECK(result->notes.empty());
  return result->hosts;
}

std::string refusal(std::string_view printed, std::optional<std::int32_t> slots = {}) {
  const auto result = parse_discovery(printed, slots);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == error_kind::invalid_argument);
  return result.error().text;
}

} // namespace

TEST_CASE("discovered hosts keep the order of their lines, and empty lines are skipped") {
  CHECK(hosts_of("b:2\n\n  a-1.x_y:4 \r\n[fe80::1]:1\n") ==
        std::vector<host_slots>{{"b", 2}, {"a-1.x_y", 4}, {"fe80::1", 1}});
  CHECK(hosts_of("b:2") == std::vector<host_slots>{{"b", 2}});
  CHECK(hosts_of("# of the region\nb:2 # new\n#c:1\n") == std::vector<host_slots>{{"b", 2}});
  CHECK(hosts_of("").empty());
  CHECK(hosts_of("\n \n").empty());
}

TEST_CASE("a host without slots gets the number given for all hosts") {
  CHECK(hosts_of("a\n[::1]\nb:1\n", 3) == std::vector<host_slots>{{"a", 3}, {"::1", 3}, {"b", 1}});
  CHECK_THAT(refusal("a:1\nb\n"), Catch::StartsWith("line 2 of the discovered hosts, 'b', tells no slots"));
  CHECK_THAT(refusal("b"), Catch::Contains("--slots-per-host"));
}

TEST_CASE("a host that is printed twice gets the slots of both lines, with a note") {
  const auto result = parse_discovery("a:2\nb:1\na:3\n", {});
  REQUIRE(result);
  CHECK(result->hosts == std::vector<host_slots>{{"a", 5}, {"b", 1}});
  REQUIRE(result->notes.size() == 1);
  CHECK_THAT(result->notes[0],
             Catch::Contains("line 3") && Catch::Contains("'a:3'") && Catch::Contains("5 slots altogether"));
}

TEST_CASE("an invalid host is refused with its line") {
  for (const char* line :
       {"a b", "a:", "a:x", "a:-1", "a:0", ":2", "a:2:3", "[x]:2", "[::1]2", "[::1", "a:99999999999",
        "Traceback (most recent call last):", "a,b", "-oProxyCommand=x:1", "user@b:1"}) {
    INFO(line);
    CHECK_THAT(refusal(std::string("ok:1\n") + line + "\n", 1),
               Catch::Contains("line 2") && Catch::Contains(line));
  }
}

TEST_CASE("control characters of a refused line are replaced, and long lines are cut") {
  CHECK_THAT(refusal("\x1b[31mred\n"), Catch::Contains("'?[31mred'"));
  CHECK(refusal(std::string(5000, '!')).size() < 300);
}

TEST_CASE("too many lines, or too many slots, are refused") {
  std::string many;
  for (std::size_t line = 0; line <= most_discovery_lines; ++line)
    many += "h" + std::to_string(line) + ":1\n";
  CHECK_THAT(refusal(many), Catch::Contains("line 10001") && Catch::Contains("one too many"));
  CHECK_THAT(refusal("a:65536\na:1\n"), Catch::Contains("more than 65536"));
}

TEST_CASE("a line is quoted up to its 120th character, and unprintable characters as question marks") {
  const std::string as_long_as_fits(119, 'x');
  CHECK(refusal(as_long_as_fits + "!").find("'" + as_long_as_fits + "!',") != std::string::npos);
  CHECK(refusal(as_long_as_fits + "!!").find("'" + as_long_as_fits + "!…',") != std::string::npos);
  CHECK(refusal("a\x7f"
                "b\tc!")
            .find("'a?b?c!'") != std::string::npos);
}

TEST_CASE("the limit of slots for a host holds on one line and on two") {
  const auto limit = std::to_string(most_slots);
  CHECK(hosts_of("a:" + limit) == std::vector<host_slots>{{"a", most_slots}});
  CHECK(refusal("a:1\na:" + limit).find("more than " + limit + " slots") != std::string::npos);
}
