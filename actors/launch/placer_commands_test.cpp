#include "actors/launch/placer_commands.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using numbers = std::vector<placer_commands::number>;
using texts = std::vector<std::string>;

std::shared_ptr<last_lines> printing(const std::string& text) {
  auto printed = std::make_shared<last_lines>();
  printed->take(text);
  return printed;
}

} // namespace

TEST_CASE("a command is needed until the last of its hosts is released", "[placer commands]") {
  placer_commands commands;
  const auto both = commands.begin({"a", "b"}, printing(""));
  const auto other = commands.begin({"c"}, printing(""));
  CHECK(other != both);
  CHECK(commands.release("a").empty());
  CHECK(commands.hosts_of(both) == placer_commands::host_set{"b"});
  CHECK(commands.release("x").empty());
  CHECK(commands.release("b") == numbers{both});
  CHECK(commands.release("c") == numbers{other});
}

TEST_CASE("a finished command tells how it has ended, and for which hosts", "[placer commands]") {
  placer_commands commands;
  const auto ended = commands.begin({"a", "b"}, printing(""));
  const auto never_ran = commands.begin({"c"}, printing(""));
  commands.release("a");
  commands.end(ended, {7, 0});
  const auto finished = commands.finish(ended);
  CHECK(finished.hosts == placer_commands::host_set{"b"});
  REQUIRE(finished.exit_status);
  CHECK(finished.exit_status->code == 7);
  CHECK_FALSE(commands.empty());
  CHECK_FALSE(commands.finish(never_ran).exit_status);
  CHECK(commands.empty());
}

TEST_CASE("an earlier command of a host is not its latest, also after its end", "[placer commands]") {
  placer_commands commands;
  const auto earlier = commands.begin({"a", "b"}, printing(""));
  const auto later = commands.begin({"a"}, printing(""));
  CHECK(later != earlier);
  CHECK_FALSE(commands.is_latest(earlier, "a"));
  CHECK(commands.is_latest(earlier, "b"));
  CHECK(commands.is_latest(later, "a"));
  commands.finish(earlier);
  CHECK_FALSE(commands.is_latest(earlier, "a"));
  commands.finish(later);
  CHECK(commands.begin({"a"}, printing("")) != later);
}

TEST_CASE("the last lines of a host are those of its latest command, and are kept until it is connected",
          "[placer commands]") {
  placer_commands commands;
  CHECK(commands.printed_by("a").empty());
  const auto earlier = commands.begin({"a"}, printing("first\nsecond\n"));
  CHECK(commands.printed_by("a") == texts{"first", "second"});
  CHECK(commands.printed_by("b").empty());
  commands.finish(earlier);
  commands.keep_lines("a", {"second"});
  CHECK(commands.printed_by("a") == texts{"second"});
  const auto later = commands.begin({"a"}, printing("third\n"));
  CHECK(commands.printed_by("a") == texts{"third"});
  commands.finish(later);
  CHECK(commands.printed_by("a") == texts{"second"});
  commands.connected("a");
  CHECK(commands.printed_by("a").empty());
}

TEST_CASE("a host that cannot reach the launcher gets commands that forward ports, alone",
          "[placer commands]") {
  placer_commands commands;
  const auto first = commands.begin({"a"}, printing("unreachable\n"));
  CHECK_FALSE(commands.forwards({"a"}));
  CHECK_FALSE(commands.finish(first).forwards);
  commands.keep_lines("a", {"unreachable"});
  commands.forward_ports("a", {"unreachable"});
  CHECK(commands.printed_by("a") == texts{"unreachable"});
  CHECK(commands.forwards({"a"}));
  CHECK_FALSE(commands.forwards({"b"}));
  CHECK_FALSE(commands.forwards({"a", "b"}));
  const auto second = commands.begin({"a"}, printing("refused\n"));
  CHECK(commands.printed_by("a") == texts{"unreachable", "refused"});
  commands.connected("a");
  CHECK(commands.printed_by("a") == texts{"refused"});
  CHECK(commands.finish(second).forwards);
  CHECK(commands.forwards({"a"}));
}
