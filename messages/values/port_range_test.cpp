#include "messages/values/port_range.hpp"

#include <catch2/catch.hpp>

namespace farandole {

TEST_CASE("a range of ports is two ports, the lower one first") {
  CHECK(port_range::parse("4000-4003") == port_range{4000, 4003});
  CHECK(port_range::parse("65535-65535") == port_range{65535, 65535});
  CHECK(port_range::parse("") == port_range{});
  for (const char* text :
       {"4000", "4003-4000", "0-10", "1-65536", "-4000", "4000-", "a-b", "4000-4003-4005", " 1-2", "1:2"})
    CHECK_FALSE(port_range::parse(text));
  CHECK(port_range{4000, 4003}.text() == "4000-4003");
}

TEST_CASE("every port of a range is tried once, from a place that differs between processes") {
  const port_range ports{4000, 4003};
  CHECK(ports.from(0) == std::vector<std::uint16_t>{4000, 4001, 4002, 4003});
  CHECK(ports.from(6) == std::vector<std::uint16_t>{4002, 4003, 4000, 4001});
  CHECK(port_range{}.from(3) == std::vector<std::uint16_t>{0}); // the system picks one
}

} // namespace farandole
