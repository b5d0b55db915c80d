#include "elastic/agent_table.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using names = std::vector<std::string>;
constexpr agent_table::time_point start{};

agent_hello hello_of(const std::string& host) {
  agent_hello hello;
  hello.version = "1.0";
  hello.program = "/opt/farandole";
  hello.host = host;
  hello.machine = "machine of " + host;
  return hello;
}

agent_rules elastic_rules() {
  agent_rules rules;
  rules.retries = true;
  return rules;
}

} // namespace

TEST_CASE("the agents of all wanted hosts are started, at most a given number at once") {
  agent_rules rules;
  CHECK(rules.starts_at_once == 32);
  rules.starts_at_once = 2;
  agent_table table(rules);
  CHECK(table.want({"a", "b", "c", "a"}, start).starts == names{"a", "b"});
  const auto next = table.hello(7, hello_of("a"), start);
  CHECK(next.connected == std::vector<std::pair<std::uint64_t, std::string>>{{7, "a"}});
  CHECK(next.starts == names{"c"});
  CHECK(table.missing() == names{"b", "c"});
  CHECK(table.link_of("a") == 7);
  CHECK_FALSE(table.link_of("b"));
  CHECK(table.facts().at("a").machine == "machine of a");
}

TEST_CASE("a leaving agent serves the processes that it has started, and starts no others") {
  agent_table table(agent_rules{});
  table.want({"a", "b"}, start);
  CHECK_FALSE(table.serving_link_of("a"));
  CHECK_FALSE(table.serving_link_of("x"));
  table.hello(7, hello_of("a"), start);
  CHECK(table.serving_link_of("a") == 7);
  CHECK(table.leaving(7, start).dismissals == std::vector<std::uint64_t>{7});
  CHECK_FALSE(table.link_of("a"));
  CHECK(table.serving_link_of("a") == 7);
  table.closed(7, "", start);
  CHECK_FALSE(table.serving_link_of("a"));
}

TEST_CASE("an agent that is not wanted, the second of its host, or too late is refused with the reason") {
  agent_table table(agent_rules{});
  table.want({"a"}, start);
  CHECK(table.hello(1, hello_of("x"), start).refusals.at(0).second == "host x is not one of the job's hosts");
  table.hello(2, hello_of("a"), start);
  CHECK(table.hello(3, hello_of("a"), start).refusals.at(0).second ==
        "host a already has an agent; give each agent a name of its own (--host)");
  CHECK(table.end(start).dismissals == std::vector<std::uint64_t>{2});
  CHECK(table.hello(4, hello_of("a"), start).refusals.at(0).second == "the job has ended");
}

TEST_CASE("an agent of another version is refused with host, program and both versions, and its host fails") {
  agent_rules rules;
  rules.version = "2.0";
  agent_table table(rules);
  table.want({"a"}, start);
  auto hello = hello_of("a");
  hello.wire_version = wire_version + 1;
  const auto step = table.hello(1, hello, start);
  const std::string text =
      "host a has version 1.0 of Farandole (/opt/farandole), and the launcher has version 2.0: "
      "install the same version on all hosts";
  CHECK(step.refusals.at(0).second == text);
  CHECK(step.failures == std::vector<agent_table::failure>{{"a", text, 1, false}});
}

TEST_CASE("a host whose agent does not connect within the start timeout fails, and its command is ended") {
  agent_table table(agent_rules{});
  const auto first = table.want({"a"}, start);
  REQUIRE(first.call_next == start + 30s);
  CHECK(table.due(start + 29s).failures.empty());
  CHECK(table.is_starting("a"));
  CHECK_FALSE(table.is_starting("b"));
  const auto step = table.due(start + 30s);
  CHECK_FALSE(table.is_starting("a"));
  CHECK(step.stops == names{"a"});
  CHECK(step.failures.at(0).cause == "its agent has not connected within start timeout");
  CHECK(step.failures.at(0).timed_out);
  CHECK_FALSE(step.call_next);
  CHECK(table.due(start + 1h).starts.empty());
}

TEST_CASE(
    "a host that does not exist yet is tried again until the start timeout, and reported once meanwhile") {
  agent_table table(agent_rules{});
  auto time = start;
  CHECK(table.want({"a"}, time).starts == names{"a"});
  for (const auto wait : {1s, 2s, 4s, 5s, 5s, 5s, 5s}) {
    const auto step = table.host_missing("a", "ssh exited with code 255", 255, time);
    CHECK(step.failures.empty());
    CHECK(step.postponed.size() == (time == start ? 1 : 0));
    REQUIRE(step.call_next == time + wait);
    CHECK(table.due(time + wait - 1ms).starts.empty());
    time += wait;
    CHECK(table.due(time).starts == names{"a"});
  }
  const auto last = table.host_missing("a", "ssh exited with code 255", 255, time);
  CHECK(last.failures ==
        std::vector<agent_table::failure>{
            {"a", "ssh exited with code 255, in each of 8 tries within start timeout", 255, false}});
  CHECK(table.due(start + 1h).starts.empty());
}

TEST_CASE("tries for a host that does not exist yet do not extend the start timeout") {
  agent_table table(agent_rules{});
  table.want({"a"}, start);
  table.host_missing("a", "ssh exited with code 255", 255, start + 20s);
  const auto again = table.due(start + 21s);
  CHECK(again.starts == names{"a"});
  CHECK(again.call_next == start + 30s);
  CHECK(table.due(start + 30s).failures.size() == 1);
}

TEST_CASE("a host that appears while it is tried again is connected as any other") {
  agent_table table(agent_rules{});
  table.want({"a"}, start);
  table.host_missing("a", "ssh exited with code 255", 255, start);
  CHECK(table.hello(1, hello_of("a"), start + 1s).connected.size() == 1);
  CHECK(table.due(start + 1h).failures.empty());
}

TEST_CASE("an elastic job reports a host that does not exist yet as any other failure, and tries it again") {
  agent_table table(elastic_rules());
  table.want({"a"}, start);
  const auto step = table.host_missing("a", "ssh exited with code 255", 255, start);
  CHECK(step.failures == std::vector<agent_table::failure>{{"a", "ssh exited with code 255", 255, false}});
  CHECK(step.postponed.empty());
  CHECK(step.call_next == start + 1s);
}

TEST_CASE("in an elastic job a host that failed is tried again after 1 s, growing to 60 s") {
  agent_table table(elastic_rules());
  auto time = start;
  CHECK(table.want({"a"}, time).starts == names{"a"});
  for (const auto wait : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    const auto failed = table.command_failed("a", "connection refused", 255, time);
    CHECK(failed.failures == std::vector<agent_table::failure>{{"a", "connection refused", 255, false}});
    REQUIRE(failed.call_next == time + wait);
    CHECK(table.due(time + wait - 1ms).starts.empty());
    time += wait;
    CHECK(table.due(time).starts == names{"a"});
  }
  table.hello(1, hello_of("a"), time);
  CHECK(table.closed(1, "reset by peer", time).call_next == time + 1s);
}

TEST_CASE("a lost agent is the failure of its host") {
  agent_table table(agent_rules{});
  table.want({"a"}, start);
  table.hello(1, hello_of("a"), start);
  table.running("a", 2, start);
  CHECK(table.closed(1, "no sign of life for 30 s", start).failures ==
        std::vector<agent_table::failure>{{"a", "no sign of life for 30 s", 1, true}});
  CHECK_FALSE(table.link_of("a"));
  CHECK(table.closed(1, "again", start).failures.empty());
}

TEST_CASE("the agent of a host that is not wanted any more is dismissed once, after its last process") {
  agent_table table(elastic_rules());
  table.want({"a", "b"}, start);
  table.hello(1, hello_of("a"), start);
  table.running("a", 1, start);
  auto step = table.want({"b"}, start);
  CHECK(step.dismissals.empty());
  CHECK(step.stops.empty());
  CHECK(table.running("a", 0, start).dismissals == std::vector<std::uint64_t>{1});
  CHECK(table.running("a", 0, start).dismissals.empty());
  CHECK_FALSE(table.link_of("a"));
  CHECK(table.closed(1, "", start).failures.empty());
  CHECK(table.want({}, start).stops == names{"b"});
  CHECK(table.empty());
}

TEST_CASE("a host that is wanted again while its agent leaves gets a new agent afterwards") {
  agent_table table(elastic_rules());
  table.want({"a"}, start);
  table.hello(1, hello_of("a"), start);
  CHECK(table.want({}, start).dismissals == std::vector<std::uint64_t>{1});
  CHECK(table.want({"a"}, start).starts.empty());
  CHECK(table.closed(1, "", start).starts == names{"a"});
}

TEST_CASE(
    "an agent that asks to leave is dismissed after its last process, and its host is not started again") {
  agent_table table(elastic_rules());
  table.want({"a"}, start);
  table.hello(1, hello_of("a"), start);
  table.running("a", 1, start);
  CHECK(table.leaving(1, start).dismissals.empty());
  CHECK(table.running("a", 0, start).dismissals == std::vector<std::uint64_t>{1});
  CHECK(table.closed(1, "", start).starts.empty());
  CHECK(table.empty());
}

TEST_CASE("in a job of fixed size an agent that asks to leave is dismissed at once") {
  agent_table table(agent_rules{});
  table.want({"a"}, start);
  table.hello(1, hello_of("a"), start);
  table.running("a", 1, start);
  CHECK(table.leaving(1, start).dismissals == std::vector<std::uint64_t>{1});
}

TEST_CASE("agents that users start are accepted from hosts of any name, and may come back") {
  auto rules = elastic_rules();
  rules.most_others = 2;
  agent_table table(rules);
  CHECK(table.hello(1, hello_of("x"), start).connected.size() == 1);
  CHECK(table.hello(2, hello_of("x"), start).refusals.size() == 1);
  table.running("x", 1, start);
  const auto lost = table.closed(1, "reset by peer", start);
  CHECK(lost.failures.size() == 1);
  CHECK_FALSE(lost.call_next);
  CHECK(table.hello(3, hello_of("x"), start).connected.size() == 1);
  table.hello(4, hello_of("y"), start);
  CHECK(table.hello(5, hello_of("z"), start).refusals.at(0).second ==
        "the job already has 2 agents, as many as --agents allows");
}
