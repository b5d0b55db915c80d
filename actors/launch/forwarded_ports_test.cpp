#include "actors/launch/forwarded_ports.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using ports = std::vector<std::uint16_t>;
const std::vector<forward_target> targets{{"10.0.0.1", 4711}, {"fd00::1", 4712}};
const std::string first = "Allocated port 40001 for remote forward to 10.0.0.1:4711\r\n";
const std::string second = "Allocated port 40002 for remote forward to fd00::1:4712\r\n";

} // namespace

TEST_CASE("the ports are known when ssh has printed all of them, in any order and in any pieces",
          "[forwarding]") {
  forwarded_ports found(targets);
  CHECK_FALSE(found.take("Welcome\n" + second));
  CHECK_FALSE(found.take(first.substr(0, 20)));
  CHECK(found.take(first.substr(20)) == ports{40001, 40002});
  CHECK_FALSE(found.take(first)); // they are told once
  CHECK(forwarded_ports(targets).take(first + second + "Last login\n") == ports{40001, 40002});
}

TEST_CASE("lines about other ports, and text that resembles such lines, are ignored", "[forwarding]") {
  for (const auto* line : {"Allocated port 40001 for remote forward to 10.0.0.2:4711\n",
                           "Allocated port 40001 for remote forward to 10.0.0.1:47110\n",
                           "Allocated port 0 for remote forward to 10.0.0.1:4711\n",
                           "Allocated port 70000 for remote forward to 10.0.0.1:4711\n",
                           "Allocated port for remote forward to 10.0.0.1:4711\n",
                           "> Allocated port 40001 for remote forward to 10.0.0.1:4711\n"}) {
    forwarded_ports found({targets.front()});
    CHECK_FALSE(found.take(line));
    CHECK_FALSE(found.take(std::string(1000, 'x') + first));
    CHECK(found.take(first) == ports{40001});
  }
}

TEST_CASE("an agent reads the ports that the launcher has written in a line", "[forwarding]") {
  CHECK(forwarded_line({40001, 40002}) == "40001 40002\n");
  CHECK(ports_in_line("40001 40002", 2) == ports{40001, 40002});
  for (const auto* line : {"", "40001", "40001 ", "40001 40002 40003", "40001  40002", "40001,40002", "0 1",
                           "70000 1", "a b", " 40001 40002"})
    CHECK(ports_in_line(line, 2).empty());
}
