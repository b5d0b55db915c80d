#include "actors/rendezvous/this_host.hpp"

#include <catch2/catch.hpp>

#include <optional>

using namespace farandole;
using Catch::Contains;

namespace {

settings with_interface(const std::string& name) {
  auto values =
      settings::load({[name](std::string_view variable) -> std::optional<std::string> {
                        return variable == "HOROVOD_GLOO_IFACE" ? std::optional(name) : std::nullopt;
                      },
                      {},
                      {}});
  REQUIRE(values);
  return *values;
}

} // namespace

TEST_CASE("a worker whose rendezvous is on its host has its address there, whatever interface is wanted",
          "[host]") {
  CHECK(*own_address_towards("127.0.0.1", with_interface("nosuch0")) == "127.0.0.1");
}

TEST_CASE("the error for a wanted interface that does not exist names the first that is wanted", "[host]") {
  CHECK(*address_of_wanted_interface(with_interface("lo")) == "127.0.0.1");
  const auto missing = address_of_wanted_interface(with_interface("nosuch0,lo"));
  REQUIRE_FALSE(missing);
  CHECK_THAT(missing.error().text, Contains("\"nosuch0\""));
}
