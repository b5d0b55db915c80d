#include "tools/farandole/hosts.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

std::vector<host_slots> hosts_of(std::string_view text) {
  auto hosts = parse_hosts(text);
  REQUIRE(hosts);
  return *hosts;
}

} // namespace

TEST_CASE("a host list keeps the order in which it was written", "[hosts]") {
  CHECK(hosts_of("b:2,a-1.example_x:4") == std::vector<host_slots>{{"b", 2}, {"a-1.example_x", 4}});
  CHECK(hosts_of("[fe80::1]:2,127.0.0.1:1") == std::vector<host_slots>{{"fe80::1", 2}, {"127.0.0.1", 1}});
}

TEST_CASE("a host that is named twice gets the slots of both", "[hosts]") {
  CHECK(hosts_of("a:2,b:1,a:3") == std::vector<host_slots>{{"a", 5}, {"b", 1}});
}

TEST_CASE("an entry without slots or with an invalid name is refused and named", "[hosts]") {
  for (const char* list : {"a", "a:", "a:x", ":2", "a:2,", "a b:2", "a:-1", "a:2:3", "a:99999999999", "[x]:2",
                           "-V:2", "user@a:2"}) {
    INFO(list);
    const auto hosts = parse_hosts(list);
    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().kind == error_kind::invalid_argument);
  }
}

TEST_CASE("control characters of a refused entry are escaped", "[hosts]") {
  for (const char* list : {"a\x1b[31m:1", "a\nhost b:1"}) {
    const auto hosts = parse_hosts(list);
    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().text.find_first_of("\x1b\n") == std::string::npos);
  }
  CHECK_THAT(parse_hosts("a\x1b[31m:1").error().text, Catch::Contains("'a\\x1b[31m:1' is no host"));
}

TEST_CASE("a host file is read as Open MPI and MPICH read it", "[hosts]") {
  for (const char* content :
       {"# ours\n\nnode1 slots=2\n  node2\t slots = 4 # fast\r\n", "\xef\xbb\xbfnode1 slots=2\nnode2 slots=4",
        "node1:2\nnode2:4\n", "node1 slots=2 max_slots=2\nnode2 max-slots = 8  slots=4\n",
        "node1 slots=1\nnode2 slots=4\nnode1 slots=1\n"}) {
    INFO(content);
    const auto hosts = parse_hostfile(content, "hosts");
    REQUIRE(hosts);
    CHECK(*hosts == std::vector<host_slots>{{"node1", 2}, {"node2", 4}});
  }
  CHECK(*parse_hostfile("[fe80::1]:3\n[::1] slots=1\n", "hosts") ==
        std::vector<host_slots>{{"fe80::1", 3}, {"::1", 1}});
}

TEST_CASE("an invalid line of a host file is refused with the file, the line and the reason", "[hosts]") {
  const auto refusal = [](const std::string& line) {
    const auto hosts = parse_hostfile("a slots=1\n" + line + "\nc slots=1\n", "my hosts");
    REQUIRE_FALSE(hosts);
    CHECK_THAT(hosts.error().text, Catch::StartsWith("host file my hosts, line 2: "));
    return hosts.error().text;
  };
  for (const char* line :
       {"b", "b slots=x", "b slots=", "b slots=-1", "b slots=1x", "slots=2", "b max_slots=2", "b:2 slots=2",
        "b slots=1 slots=2", "local host slots=2", "b slots=2 max_slots", "b slots=2 3", "b slots 2"}) {
    INFO(line);
    CHECK_THAT(refusal(line),
               Catch::Contains("'" + std::string(line) + "' is not of the form: name slots=number"));
  }
  CHECK_THAT(refusal("b cpu=2"), Catch::Contains("unknown keyword 'cpu'"));
  CHECK_THAT(refusal("b slots=2 ifname=eth0"), Catch::Contains("unknown keyword 'ifname'"));
  CHECK_THAT(refusal("b slots=4 max_slots=3"), Catch::Contains("has fewer max_slots than slots"));
  CHECK_THAT(refusal("-V slots=2"), Catch::Contains("no host; a name must not begin with a dash"));
  CHECK_THAT(refusal("user@b slots=2"), Catch::Contains("~/.ssh/config"));
  for (const char* line : {"local/host slots=2",
                           "\x7f"
                           "ELF\x01\x02",
                           "b:x", "b\x01 slots=2"})
    CHECK_THAT(refusal(line), Catch::Contains("begins with a name that is no host"));
  CHECK_THAT(refusal("-oProxyCommand=true slots=2"), Catch::Contains("is not of the form"));
}

TEST_CASE("the requested number of processes take the first slots", "[hosts]") {
  const auto places = place(hosts_of("a:4,b:4"), 2);
  REQUIRE(places);
  CHECK(*places == std::vector<placement>{{0, "a", 0, 2, 0, 1}, {1, "a", 1, 2, 0, 1}});
}

TEST_CASE("cross ranks count the hosts that have a local rank", "[hosts]") {
  const auto places = place(hosts_of("a:1,b:2,c:3"), 5);
  REQUIRE(places);
  CHECK(*places == std::vector<placement>{{0, "a", 0, 1, 0, 3},
                                          {1, "b", 0, 2, 1, 3},
                                          {2, "b", 1, 2, 0, 2},
                                          {3, "c", 0, 2, 2, 3},
                                          {4, "c", 1, 2, 1, 2}});
}

TEST_CASE("two names of one machine are one host for local and cross ranks", "[hosts]") {
  const auto places =
      place(hosts_of("a:2,b:1,a2:2"), 5, [](const std::string& host) { return host.substr(0, 1); });
  REQUIRE(places);
  CHECK(*places == std::vector<placement>{{0, "a", 0, 4, 0, 2},
                                          {1, "a", 1, 4, 0, 1},
                                          {2, "b", 0, 1, 1, 2},
                                          {3, "a2", 2, 4, 0, 1},
                                          {4, "a2", 3, 4, 0, 1}});
}

TEST_CASE("a machine that has two names among the hosts is noticed", "[hosts]") {
  const std::vector<host_slots> hosts{{"localhost", 1}, {"b", 1}, {"b2", 1}};
  const auto machine_of = [](const std::string& host) { return host.substr(0, 1); };
  CHECK(machines_with_two_names(hosts, machine_of) ==
        std::vector<std::string>{"hosts b and b2 are one machine; its workers count as those of one host"});
}

TEST_CASE("fewer slots than processes are refused with both numbers", "[hosts]") {
  const auto places = place(hosts_of("a:1,b:2"), 4);
  REQUIRE_FALSE(places);
  CHECK(places.error().text.find("4 processes") != std::string::npos);
  CHECK(places.error().text.find("3 slots") != std::string::npos);
}

TEST_CASE("a machine is known by its short name, in any letter case, and with a final dot", "[hosts]") {
  for (const char* name :
       {"node1.example.com", "Node1.EXAMPLE.com", "node1.example.com.", "node1", "NODE1", "node1."})
    CHECK(is_name_of(name, "Node1.example.com"));
  for (const char* name : {"node1", "NODE1", "node1."})
    CHECK(is_name_of(name, "node1"));
  for (const char* name :
       {"node", "node11", "example.com", "node1.example", "node1.example.org", "node1..", ".", ""})
    CHECK_FALSE(is_name_of(name, "node1.example.com"));
}

TEST_CASE("this machine is known by its names and loopback addresses", "[hosts]") {
  CHECK(is_this_host("localhost"));
  CHECK(is_this_host("LocalHost."));
  CHECK(is_this_host("127.0.0.1"));
  CHECK(is_this_host("127.0.0.7"));
  CHECK_FALSE(is_this_host("192.0.2.1")); // an address reserved for documentation
}

TEST_CASE("a host that is named several times does not get more slots than a host may have", "[hosts]") {
  const auto list = parse_hosts("a:65536,b:1,a:1");
  REQUIRE_FALSE(list);
  CHECK(list.error().text.find("host 'a' has more than 65536 slots") != std::string::npos);
  const auto file = parse_hostfile("a slots=65535\na slots=1\na slots=1\n", "hosts");
  REQUIRE_FALSE(file);
  CHECK(file.error().text.find("host 'a' has more than 65536 slots") != std::string::npos);
}
