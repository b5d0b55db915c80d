#include "elastic/usable_hosts.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using hosts = std::vector<host_slots>;
using names = std::vector<std::string>;

discovered_hosts three() {
  return {{{"here", 2}, {"b", 4}, {"c", 1}}, {}, {"b", "c"}};
}

} // namespace

TEST_CASE("hosts of this machine can be used at once") {
  usable_hosts all;
  all.found({{{"here", 2}}, {}, {}});
  CHECK_FALSE(all.wanted_agents());
  CHECK(all.usable() == hosts{{"here", 2}});
}

TEST_CASE("the first workers wait until the agent of every host has connected or failed") {
  usable_hosts all;
  all.found(three());
  CHECK(all.wanted_agents() == names{"b", "c"});
  CHECK_FALSE(all.wanted_agents());
  CHECK_FALSE(all.usable());
  CHECK_FALSE(all.connected("b", 8));
  CHECK_FALSE(all.usable());
  CHECK(all.failed("c"));
  CHECK(all.usable() == hosts{{"here", 2}, {"b", 4}});
}

TEST_CASE("the first workers do not wait for a host that has left before the others have connected") {
  usable_hosts all;
  all.found(three());
  all.connected("b", 4);
  all.leaves("b");
  CHECK_FALSE(all.usable());
  all.connected("c", 1);
  CHECK(all.usable() == hosts{{"here", 2}, {"c", 1}});
  all.connected("b", 4);
  CHECK(all.usable() == hosts{{"here", 2}, {"b", 4}, {"c", 1}});
}

TEST_CASE("a host that comes later is used once its agent is connected") {
  usable_hosts all;
  all.found({{{"here", 2}}, {}, {}});
  REQUIRE(all.usable());
  all.found(three());
  CHECK(all.wanted_agents() == names{"b", "c"});
  CHECK(all.usable() == hosts{{"here", 2}});
  all.connected("c", 1);
  CHECK(all.usable() == hosts{{"here", 2}, {"c", 1}});
}

TEST_CASE("a host is used again after its agent was lost and has come back; only the first failure is news") {
  usable_hosts all;
  all.found(three());
  all.connected("b", 4);
  all.connected("c", 1);
  CHECK(all.failed("b"));
  CHECK_FALSE(all.failed("b"));
  CHECK(all.usable() == hosts{{"here", 2}, {"c", 1}});
  CHECK(all.connected("b", 4));
  CHECK(all.usable() == hosts{{"here", 2}, {"b", 4}, {"c", 1}});
}

TEST_CASE("a host whose agent was told to end is not used any more") {
  usable_hosts all;
  all.found(three());
  all.connected("b", 4);
  all.connected("c", 1);
  REQUIRE(all.usable());
  all.leaves("c");
  CHECK(all.usable() == hosts{{"here", 2}, {"b", 4}});
}

TEST_CASE("a host that discovery does not name any more needs no agent") {
  usable_hosts all;
  all.found(three());
  all.wanted_agents();
  all.connected("b", 4);
  all.connected("c", 1);
  all.found({{{"here", 2}, {"c", 1}}, {}, {"c"}});
  CHECK(all.wanted_agents() == names{"c"});
  CHECK(all.usable() == hosts{{"here", 2}, {"c", 1}});
  // A late event about its agent changes nothing; it comes back, and needs a new agent.
  all.connected("b", 4);
  all.found(three());
  CHECK(all.wanted_agents() == names{"b", "c"});
  CHECK(all.usable() == hosts{{"here", 2}, {"c", 1}});
}

TEST_CASE("hosts whose users start the agents are used as they come") {
  usable_hosts all(2);
  all.found({});
  CHECK_FALSE(all.usable());
  all.connected("x", 3);
  CHECK_FALSE(all.usable());
  all.connected("y", 1);
  CHECK(all.usable() == hosts{{"x", 3}, {"y", 1}});
  all.failed("x");
  CHECK(all.usable() == hosts{{"y", 1}});
}
