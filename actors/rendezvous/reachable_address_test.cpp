#include "actors/rendezvous/reachable_address.hpp"

#include <catch2/catch.hpp>

#include "actors/event_loop/link_testing.hpp"
#include "collectives/transport/connections/sockets.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Contains;

namespace {

link_settings links(std::string_view secret) {
  link_settings made;
  made.credentials = std::make_shared<const tls_credentials>(secret);
  made.connect_timeout = std::chrono::seconds(10);
  return made;
}

} // namespace

TEST_CASE("of several addresses, the one is found at which the rendezvous proves the secret",
          "[rendezvous]") {
  party service;
  const auto made = listen(service.system.get(), "127.0.0.2", 0, service.owner(), service.settings);
  REQUIRE(made);
  // Connections to this address succeed, and nobody answers there.
  const auto silent = open_listener("127.0.0.3", made->port);
  REQUIRE(silent);
  const auto found =
      find_reachable_address({"127.0.0.1", "127.0.0.3", "127.0.0.2"}, made->port, links("the job's secret"));
  REQUIRE(found);
  CHECK(*found == "127.0.0.2");
}

TEST_CASE("without a rendezvous at any address, the error names each with its reason", "[rendezvous]") {
  party other_job("another secret");
  const auto made = listen(other_job.system.get(), "127.0.0.2", 0, other_job.owner(), other_job.settings);
  REQUIRE(made);
  const auto found =
      find_reachable_address({"127.0.0.1", "127.0.0.2"}, made->port, links("the job's secret"));
  REQUIRE_FALSE(found);
  CHECK_THAT(found.error().text, Contains("the rendezvous cannot be reached at any of its addresses") &&
                                     Contains("\n  127.0.0.1: ") && Contains("\n  127.0.0.2: "));
}

TEST_CASE("a single address is not tried in advance", "[rendezvous]") {
  const auto found = find_reachable_address({"192.0.2.1"}, 1, links("the job's secret"));
  REQUIRE(found);
  CHECK(*found == "192.0.2.1");
}
