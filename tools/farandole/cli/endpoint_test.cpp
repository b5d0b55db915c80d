#include "tools/farandole/cli/endpoint.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("an address with a port is read with or without brackets, and written with them") {
  for (const auto* text : {"10.0.0.1:4711", "node:1", "[fd00::1]:65535"}) {
    const auto found = endpoint::parse(text);
    REQUIRE(found);
    CHECK(found->text() == text);
  }
  CHECK(endpoint::parse("fd00::1:4711")->text() == "[fd00::1]:4711");
  CHECK(endpoint::parse("[fd00::1]:4711")->host == "fd00::1");
}

TEST_CASE("a text without an address or without a valid port is refused") {
  for (const auto* text :
       {"", "node", ":4711", "[]:4711", "node:", "node:0", "node:65536", "node:47x", "[fd00::1]"})
    CHECK_FALSE(endpoint::parse(text));
}
