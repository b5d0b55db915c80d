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
  CHECK(*own_address_for_members("127.0.0.1", with_interface("nosuch0"), false) == "127.0.0.1");
}

TEST_CASE("a worker that reaches the rendezvous through ssh has the address of the wanted interface",
          "[host]") {
  CHECK(*own_address_for_members("127.0.0.1", with_interface("lo"), true) == "127.0.0.1");
  const auto missing = own_address_for_members("127.0.0.1", with_interface("nosuch0,lo"), true);
  REQUIRE_FALSE(missing);
  CHECK_THAT(missing.error().text, Contains("\"nosuch0\""));
}
