#include "elastic/host_slots.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a number of slots is digits alone, from nothing to the most") {
  CHECK(parse_slots("0") == 0);
  CHECK(parse_slots("7") == 7);
  CHECK(parse_slots(std::to_string(most_slots)) == most_slots);
  for (const auto& text : {"", "x", "7x", "-1", " 7", "99999999999"})
    CHECK_FALSE(parse_slots(text));
  CHECK_FALSE(parse_slots(std::to_string(most_slots + 1)));
}

TEST_CASE("what stands in brackets is an IPv6 address, with a colon and without other letters") {
  const auto entry = parse_host_entry("[fe80::1%25]:2");
  REQUIRE(entry);
  CHECK(entry->name == "fe80::1%25");
  CHECK(entry->slots == 2);
  for (const auto* text : {"[abc]:2", "[10.0.0.1]:2", "[node:1]:2", "[]:2"})
    CHECK_FALSE(parse_host_entry(text));
}
