#include "actors/pmi/host_entry.hpp"

#include <catch2/catch.hpp>

#include "actors/pmi/pmi_line.hpp"

using namespace farandole;
using Catch::Contains;

TEST_CASE("the entry of a host is decoded to what was encoded, and every process manager can carry it",
          "[pmi]") {
  for (const auto& entry :
       {pmi_entry{"0123abcd", {{"eth0", "10.0.0.1"}, {"eth0", "fd00::1"}, {"ib0", "10.1.0.1"}}},
        pmi_entry{"ff", {}}}) {
    const auto text = encode_host_entry(entry);
    CHECK(is_pmi_value(text));
    const auto decoded = parse_host_entry(text, 3);
    REQUIRE(decoded);
    CHECK(*decoded == entry);
  }
}

TEST_CASE("addresses for which an entry has no room or no words are left out", "[pmi]") {
  pmi_entry entry{"0123abcd", {{"a b", "10.0.0.1"}, {"a;b", "10.0.0.2"}, {"a/b", "10.0.0.3"}}};
  CHECK(encode_host_entry(entry) == "0123abcd");
  for (int number = 0; number < 100; ++number)
    entry.addresses.push_back({"eth" + std::to_string(number), "10.0.0." + std::to_string(number)});
  const auto text = encode_host_entry(entry);
  CHECK(text.size() <= 900);
  const auto decoded = parse_host_entry(text, 0);
  REQUIRE(decoded);
  CHECK(decoded->addresses.size() > 40);
  CHECK(decoded->addresses.front() == host_address{"eth0", "10.0.0.0"});
}

TEST_CASE("an entry that is not valid is refused with the rank and the remedy", "[pmi]") {
  for (const auto* text :
       {"", "x", ";eth0/10.0.0.1", "ab;", "ab;eth0", "ab;/10.0.0.1", "ab;eth0/", "ab;eth0/1;"}) {
    const auto decoded = parse_host_entry(text, 7);
    REQUIRE_FALSE(decoded);
    CHECK_THAT(decoded.error().text, Contains("rank 7 published") && Contains("the same version"));
  }
}
