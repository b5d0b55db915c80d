#include "collectives/transport/ucx/ucx_networks.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("UCX uses TCP on trusted networks only") {
  CHECK(*ucx_transports({}, true) == "self,tcp,rc,dc,ud");
  CHECK(*ucx_transports({}, false) == "self,rc,dc,ud");
}

TEST_CASE("a user's choice of transports is kept, unless it allows TCP on a network that is not trusted") {
  for (const std::string list : {"rc", "rc_mlx5,ud:aux", "^tcp", "^shm,tcp", "ib", "self,dc_x"}) {
    CHECK(*ucx_transports(list, true) == list);
    CHECK(*ucx_transports(list, false) == list);
  }
  for (const std::string list : {"tcp", "rc,tcp", "all", "^shm", "^all_", "rc,tcp:aux", "self,all"}) {
    CHECK(*ucx_transports(list, true) == list);
    const auto refused = ucx_transports(list, false);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == error_kind::precondition);
    CHECK_THAT(refused.error().text, Catch::StartsWith("UCX_TLS=" + list + " allows TCP") &&
                                         Catch::Contains("FARANDOLE_TRUSTED_NETWORK=1"));
  }
}

TEST_CASE("UCX uses the interface of the links, and prefers its RDMA devices to all others") {
  const network_devices ethernet{"eth0", {}, {"mlx5_0:1", "mlx5_1:1"}};
  const network_devices infiniband{"ib0", {"mlx5_1:1"}, {"mlx5_0:1", "mlx5_1:1"}};
  CHECK(ucx_devices(ethernet, true) == "eth0,mlx5_0:1,mlx5_1:1");
  CHECK(ucx_devices(ethernet, false) == "mlx5_0:1,mlx5_1:1");
  CHECK(ucx_devices(infiniband, true) == "ib0,mlx5_1:1");
  CHECK(ucx_devices(infiniband, false) == "mlx5_1:1");
  CHECK(ucx_devices({}, true).empty());
}

TEST_CASE("the error of a failed connection names the address that UCX takes instead of the links' one") {
  const std::vector<interface_address> addresses{{"lo", "127.0.0.1", true, true, true},
                                                 {"eth0", "192.0.2.1", true, true, false},
                                                 {"eth0", "10.0.0.1", true, true, false},
                                                 {"eth1", "10.1.0.1", true, true, false},
                                                 {"eth0", "fd00::1", false, true, false}};
  for (const auto* ip : {"192.0.2.1", "10.1.0.1", "fd00::1", "203.0.113.7", ""})
    CHECK(other_address_remedy(addresses, ip).empty());
  CHECK(other_address_remedy(addresses, "10.0.0.1") ==
        "; over TCP, UCX uses 192.0.2.1, the first address of eth0 on this host, and not 10.0.0.1: if other "
        "hosts do not reach 192.0.2.1, unset FARANDOLE_CPU_PATH, or make 10.0.0.1 the first one");
}

TEST_CASE("the interface of an address is looked up in the system's table") {
  CHECK(find_network_devices("127.0.0.1").interface == "lo");
  CHECK(find_network_devices("203.0.113.7").interface.empty());
}
