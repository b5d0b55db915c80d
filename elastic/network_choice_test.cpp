#include "elastic/network_choice.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using names = std::vector<std::string>;

std::vector<host_networks> two_hosts() {
  return {{"a",
           {{"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.1"}, {"ib0", "10.9.0.1"}},
           "machine a",
           ""},
          {"b",
           {{"docker0", "172.17.0.1"}, {"eth1", "10.0.0.2"}, {"ib0", "10.9.0.2"}, {"eth1", "fe80::2"}},
           "machine b",
           "10.9.0.2"}};
}

std::vector<wanted_network> wanted(const names& texts) {
  auto parsed = parse_wanted_networks(texts);
  REQUIRE(parsed);
  return *parsed;
}

} // namespace

TEST_CASE("loopback, link-local and shared addresses are excluded with the reason") {
  const auto hosts = two_hosts();
  const auto chosen = choose_networks(hosts, {});
  CHECK(chosen.at("a").interfaces() == names{"eth0", "ib0"});
  REQUIRE(chosen.at("a").excluded.size() == 2);
  CHECK(chosen.at("a").excluded[0].reason == "it is a loopback address");
  CHECK(chosen.at("a").excluded[1].reason == "b has it, too");
  CHECK(chosen.at("b").excluded[1].reason == "it is a link-local address");
}

TEST_CASE("two names of one machine may share their addresses") {
  const std::vector<host_networks> hosts{{"b", {{"eth0", "10.0.0.2"}}, "machine", ""},
                                         {"b2", {{"eth0", "10.0.0.2"}}, "machine", ""}};
  CHECK_FALSE(missing_networks(choose_networks(hosts, {}), {}));
}

TEST_CASE("the address of the connection to the launcher comes first") {
  const auto hosts = two_hosts();
  const auto chosen = choose_networks(hosts, {});
  CHECK(chosen.at("b").addresses.front() == host_address{"ib0", "10.9.0.2"});
}

TEST_CASE("interfaces and networks limit the choice, and may differ between hosts") {
  const auto hosts = two_hosts();
  auto chosen = choose_networks(hosts, wanted({"eth0", "eth1"}));
  CHECK(chosen.at("a").interfaces() == names{"eth0"});
  CHECK(chosen.at("b").interfaces() == names{"eth1"});
  chosen = choose_networks(hosts, wanted({"10.9.0.0/16"}));
  CHECK(chosen.at("a").interfaces() == names{"ib0"});
  CHECK(chosen.at("b").interfaces() == names{"ib0"});
  CHECK_FALSE(missing_networks(chosen, {}));
}

TEST_CASE("networks are compared bit by bit, and only within their family") {
  const auto odd = wanted({"10.8.0.0/15", "fd00::/9"});
  CHECK(odd[0].contains({"x", "10.9.255.1"}));
  CHECK_FALSE(odd[0].contains({"x", "10.10.0.1"}));
  CHECK_FALSE(odd[0].contains({"x", "fd00::1"}));
  CHECK(odd[1].contains({"x", "fd7f::1"}));
  CHECK_FALSE(odd[1].contains({"x", "fd80::1"}));
  CHECK(wanted({"0.0.0.0/0"})[0].contains({"x", "8.8.8.8"}));
}

TEST_CASE("a malformed network is refused") {
  for (const char* text :
       {"10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "/8", "fd00::/129", "10.0.0.0/8x", "10.0.0.0/-1"})
    CHECK_FALSE(wanted_network::parse(text));
}

TEST_CASE("hosts without a usable address are reported with all addresses and reasons") {
  const auto hosts = two_hosts();
  const auto networks = wanted({"eth0"});
  const auto problem = missing_networks(choose_networks(hosts, networks), networks);
  CHECK(problem.kind == error_kind::precondition);
  CHECK(problem.text == "some hosts have no address at which the others can reach them in eth0:\n"
                        "  b:\n"
                        "    docker0 172.17.0.1: a has it, too\n"
                        "    eth1 10.0.0.2: it is not in eth0 (--network-interfaces)\n"
                        "    ib0 10.9.0.2: it is not in eth0 (--network-interfaces)\n"
                        "    eth1 fe80::2: it is a link-local address");
}

TEST_CASE("a job uses IPv4 where all hosts have it, and otherwise IPv6 where all have that") {
  std::vector<host_networks> hosts{{"a", {{"eth0", "10.0.0.1"}, {"eth0", "fd00::1"}}, "machine a", ""},
                                   {"b", {{"eth0", "fd00::2"}, {"eth0", "10.0.0.2"}}, "machine b", ""}};
  auto chosen = choose_networks(hosts, {});
  CHECK(common_family(chosen) == ip_family::v4);
  use_family(chosen, ip_family::v4);
  CHECK(chosen.at("b").addresses == std::vector<host_address>{{"eth0", "10.0.0.2"}});
  CHECK(chosen.at("b").excluded.back().reason == "the job uses IPv4 addresses");

  hosts[1].addresses.pop_back();
  chosen = choose_networks(hosts, {});
  CHECK(common_family(chosen) == ip_family::v6);
  use_family(chosen, ip_family::v6);
  CHECK(chosen.at("a").addresses == std::vector<host_address>{{"eth0", "fd00::1"}});
  CHECK(chosen.at("a").excluded.back().reason == "the job uses IPv6 addresses");
}

TEST_CASE("hosts without a common family are reported") {
  const std::vector<host_networks> hosts{{"a", {{"eth0", "10.0.0.1"}}, "machine a", ""},
                                         {"b", {{"eth0", "fd00::2"}}, "machine b", ""}};
  auto chosen = choose_networks(hosts, {});
  CHECK(common_family(chosen) == ip_family::v4);
  use_family(chosen, common_family(chosen));
  CHECK_THAT(missing_networks(chosen, {}).text,
             Catch::Contains("b:\n    eth0 fd00::2: the job uses IPv4 addresses"));
}

TEST_CASE(
    "addresses that another host has failed to reach are excluded, and those that were reached come first") {
  const host_networks host{
      "c",
      {{"eth0", "10.1.0.3"}, {"eth1", "10.2.0.3"}, {"eth2", "10.3.0.3"}, {"eth3", "10.4.0.3"}},
      "machine c",
      "10.4.0.3",
      {{"10.1.0.3", "b", "cannot connect: Network is unreachable"},
       {"10.2.0.3", "b", ""},
       {"10.3.0.3", "b", ""},
       {"10.2.0.3", "a", "no connection within 10000 ms"},
       {"10.3.0.3", "a", ""}}};
  const auto chosen = choose_networks(std::span(&host, 1), {}).at("c");
  CHECK(chosen.addresses == std::vector<host_address>{{"eth2", "10.3.0.3"}, {"eth3", "10.4.0.3"}});
  REQUIRE(chosen.excluded.size() == 2);
  CHECK(chosen.excluded[0].reason == "b cannot reach it: cannot connect: Network is unreachable");
  CHECK(chosen.excluded[1].reason == "a cannot reach it: no connection within 10000 ms");
}

TEST_CASE("an address that all hosts have reached comes before one from which some still await an answer") {
  const host_networks host{"c",
                           {{"eth0", "10.1.0.3"}, {"eth1", "10.2.0.3"}},
                           "machine c",
                           "10.1.0.3",
                           {{"10.1.0.3", "a", ""}, {"10.2.0.3", "a", ""}, {"10.2.0.3", "b", ""}}};
  CHECK(choose_networks(std::span(&host, 1), {}).at("c").addresses.front() ==
        host_address{"eth1", "10.2.0.3"});
}

TEST_CASE("a host that another one reaches at none of its addresses is reported with both and the remedy") {
  const host_networks hosts[] = {{"b", {{"eth0", "10.1.0.2"}}, "machine b", "", {{"10.1.0.2", "c", ""}}},
                                 {"c",
                                  {{"eth0", "10.2.0.3"}},
                                  "machine c",
                                  "",
                                  {{"10.2.0.3", "b", "cannot connect: Connection refused"}}}};
  CHECK(missing_networks(choose_networks(hosts, {}), {}).text ==
        "some hosts have no address at which the others can reach them:\n"
        "  c:\n"
        "    eth0 10.2.0.3: b cannot reach it: cannot connect: Connection refused\n"
        "Name networks in which the hosts reach each other (--network-interfaces), or let their firewalls "
        "pass the "
        "job: docs/guides/firewalls.md");
}

TEST_CASE("an address at which its host cannot listen is excluded with the host's own reason") {
  const host_networks host{
      "c", {{"eth0", "10.1.0.3"}}, "machine c", "", {{"10.1.0.3", "c", "no port is free"}}};
  const auto chosen = choose_networks(std::span(&host, 1), {}).at("c");
  REQUIRE(chosen.excluded.size() == 1);
  CHECK(chosen.excluded[0].reason == "no port is free");
}
