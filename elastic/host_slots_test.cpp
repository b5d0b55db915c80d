#include "elastic/host_slots.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a number of slots consists of digits alone, from 0 to the limit") {
  CHECK(parse_slots("0") == 0);
  CHECK(parse_slots("7") == 7);
  CHECK(parse_slots(std::to_string(most_slots)) == most_slots);
  for (const auto& text : {"", "x", "7x", "-1", " 7", "99999999999"})
    CHECK_FALSE(parse_slots(text));
  CHECK_FALSE(parse_slots(std::to_string(most_slots + 1)));
}

TEST_CASE("a name that ssh would take for an option, or that is more than a name, is no host") {
  for (const auto* text : {"-oProxyCommand=true", "-V", "-V:2", "--:1", "user@node:2", "a b", "a\tb", "a\nb",
                           " a", "a\x7f", "a/b", "a;b", "a$b", "a\\b", "\xc3\xa4", "a=b", "", ":2"}) {
    INFO(text);
    CHECK_FALSE(parse_host_entry(text));
  }
  CHECK(parse_host_entry("a-1.b_c-:2"));
  CHECK_THAT(std::string(host_name_hint("user@node")), Catch::Contains("~/.ssh/config"));
  CHECK_THAT(std::string(host_name_hint("-V")), Catch::Contains("must not begin with a dash"));
  CHECK(host_name_hint("a b").empty());
}

TEST_CASE("a name in brackets must be an IPv6 address") {
  const auto entry = parse_host_entry("[fe80::1%25]:2");
  REQUIRE(entry);
  CHECK(entry->name == "fe80::1%25");
  CHECK(entry->slots == 2);
  for (const auto* text : {"[abc]:2", "[10.0.0.1]:2", "[node:1]:2", "[]:2"})
    CHECK_FALSE(parse_host_entry(text));
}
