#include "actors/event_loop/repetition_limit.hpp"

#include <catch2/catch.hpp>

namespace farandole {
namespace {

using namespace std::chrono_literals;

struct limited {
  repetition_limit limit;
  repetition_limit::time_point current_time{1h};
  std::vector<std::string> logged;

  void log(const std::string& text, std::uint32_t line = 7) {
    for (const auto& summary : limit.due(current_time))
      logged.push_back(summary.text);
    if (limit.admit({"link.cpp", line}, text, current_time))
      logged.push_back(text);
  }
};

TEST_CASE("of 420 lines in a minute, the first three are logged, and one line states how many followed") {
  limited log;
  for (int i = 0; i < 420; ++i, log.current_time += 140ms)
    log.log("link from 10.0.0.7:" + std::to_string(40000 + i) + " closed: it does not know the secret");
  REQUIRE(log.logged.size() == 3);
  CHECK(log.logged[2] == "link from 10.0.0.7:40002 closed: it does not know the secret");
  log.current_time += 10s;
  log.log("link from 10.0.0.7:40999 closed: it does not know the secret");
  REQUIRE(log.logged.size() == 4);
  CHECK(log.logged[3] ==
        "417 more like this within 59 s; the last: link from 10.0.0.7:40419 closed: it does not "
        "know the secret");
}

TEST_CASE("lines that differ only in an IPv6 address are of one kind") {
  limited log;
  for (const std::string address : {"2001:db8::a", "2001:db8::b:c", "fe80::d%0", "::1", "abcd:ef::"})
    log.log("link from [" + address + "]:4711 closed: it did not send a TLS hello");
  CHECK(log.logged.size() == 3);
  log.log("link from [somewhere]:4711 closed: it did not send a TLS hello");
  CHECK(log.logged.size() == 4);
}

TEST_CASE("a continuous stream of lines is summarized once a minute") {
  limited log;
  for (int second = 0; second < 600; ++second, log.current_time += 1s)
    log.log("peer " + std::to_string(second));
  CHECK(log.logged.size() == 3 + 9);
}

TEST_CASE("a kind of line that was absent for a minute is logged again") {
  limited log;
  for (int i = 0; i < 3; ++i)
    log.log("peer 1");
  log.current_time += 61s;
  log.log("peer 2");
  CHECK(log.logged.size() == 4);
}

TEST_CASE("after a long silence, the count from before it is logged, and the kind starts over") {
  limited log;
  for (int i = 0; i < 5; ++i)
    log.log("peer 1");
  log.current_time += 1h;
  log.log("peer 2");
  REQUIRE(log.logged.size() == 5);
  CHECK(log.logged[3] == "2 more like this within 1 s; the last: peer 1");
  CHECK(log.logged[4] == "peer 2");
}

TEST_CASE("lines of other texts or other log statements are other kinds") {
  limited log;
  for (int i = 0; i < 4; ++i) {
    log.log("rank 1 waits");
    log.log("rank 1 waits", 8);
    log.log("rank 1 sleeps");
  }
  CHECK(log.logged.size() == 9);
}

TEST_CASE("the end of the log states the counts that are left, even recent ones") {
  limited log;
  for (int i = 0; i < 5; ++i)
    log.log("peer 1");
  const auto rest = log.limit.rest();
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].text == "2 more like this within 1 s; the last: peer 1");
  CHECK(rest[0].site.line == 7);
  CHECK(log.limit.rest().empty());
}

TEST_CASE("the number of kinds that the limit remembers is bounded") {
  limited log;
  const auto name = [](std::size_t number) {
    std::string text;
    for (; number > 0; number /= 26)
      text += static_cast<char>('a' + number % 26);
    return text;
  };
  for (std::size_t i = 1; i <= 2 * repetition_limit::kind_limit; ++i, log.current_time += 1ms)
    log.log(name(i) + "!");
  for (int i = 0; i < 3; ++i) // the limit has forgotten the first kind, so its lines are logged again
    log.log(name(1) + "!");
  CHECK(log.logged.size() == 2 * repetition_limit::kind_limit + 3);
}

} // namespace
} // namespace farandole
