#include "elastic/reach_check.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

constexpr reach_check::time_point start{};
constexpr auto timeout = 10s;

/// A check among hosts a, b, c … whose agents are played by the test.
struct played_check {
  explicit played_check(std::size_t count, std::size_t candidates = 1) {
    for (std::size_t number = 0; number < count; ++number) {
      hosts.push_back({std::string(1, static_cast<char>('a' + number)), {}});
      for (std::size_t network = 1; network <= candidates; ++network)
        hosts.back().candidates.push_back("10." + std::to_string(network) + ".0." + std::to_string(number));
    }
    check.emplace(hosts, timeout);
    last = check->begin(start);
  }

  /// All hosts listen; returns the requests to dial, by host.
  std::map<std::string, std::vector<tested_address>> listen() {
    for (const auto& host : hosts) {
      address_report report;
      for (const auto& ip : host.candidates)
        report.listening.push_back({ip, 1000});
      last = check->reported(host.host, report, start);
    }
    std::map<std::string, std::vector<tested_address>> dials;
    for (const auto& [host, request] : last.requests)
      dials[host] = request.dial;
    return dials;
  }
  void dialled(const std::string& from, const std::string& ip, const std::string& problem = {}) {
    last = check->reported(from, {{}, {{ip, 1000, problem}}}, start + 10ms);
  }

  std::vector<reach_check::tested_host> hosts;
  std::optional<reach_check> check;
  reach_check::step last;
};

bool is_end(const reach_check::step& step, std::size_t hosts) {
  return step.complete && step.requests.size() == hosts && step.requests.front().second == address_test{};
}

} // namespace

TEST_CASE("hosts listen at their candidates, and dial only when all of them listen") {
  reach_check check({{"a", {"10.1.0.0", "10.2.0.0"}}, {"b", {"10.1.0.1"}}}, timeout);
  const auto begun = check.begin(start);
  REQUIRE(begun.requests.size() == 2);
  CHECK(begun.requests[0].second == address_test{{"10.1.0.0", "10.2.0.0"}, {}, 10'000});
  CHECK(begun.call_next == start + 3 * timeout);
  CHECK(check.reported("b", {{{"10.1.0.1", 7}}, {}}, start).requests.empty());
  CHECK(check.reported("a", {{{"10.1.0.0", 5}}, {}}, start).requests.empty());
  const auto dials = check.reported("a", {{{"10.2.0.0", 6}}, {}}, start);
  REQUIRE(dials.requests.size() == 2);
  CHECK(dials.requests[0].second == address_test{{"10.1.0.0", "10.2.0.0"}, {{"10.1.0.1", 7}}, 10'000});
  CHECK(dials.requests[1].second == address_test{{"10.1.0.1"}, {{"10.1.0.0", 5}, {"10.2.0.0", 6}}, 10'000});
}

TEST_CASE("few hosts dial each other, and many dial the next one in a ring; no host dials more than an agent "
          "takes") {
  for (const std::size_t count : {2, 8, 9, 20}) {
    played_check played(count, reach_check::most_candidates);
    const auto dials = played.listen();
    REQUIRE(dials.size() == count);
    const auto others = count <= reach_check::most_for_all_pairs ? count - 1 : 1;
    std::set<std::string> reached;
    for (const auto& [host, addresses] : dials) {
      CHECK(addresses.size() == others * reach_check::most_candidates);
      CHECK(addresses.size() <= most_tested_addresses);
      for (const auto& address : addresses)
        reached.insert(address.address);
    }
    CHECK(reached.size() == count * reach_check::most_candidates);
  }
}

TEST_CASE(
    "a check is complete once the preferred address of each host was reached, without waiting for others") {
  played_check played(2, 2);
  played.listen();
  played.dialled("a", "10.1.0.1");
  CHECK_FALSE(played.last.complete);
  played.dialled("b", "10.1.0.0");
  CHECK(is_end(played.last, 2));
  CHECK(played.check->attempts().at("b") == std::vector<connection_attempt>{{"10.1.0.1", "a", ""}});
  played.dialled("b", "10.2.0.0");
  CHECK_FALSE(played.last.complete);
}

TEST_CASE("an address counts once all hosts that dial it have reached it") {
  played_check played(3);
  played.listen();
  for (const char* from : {"a", "b"})
    played.dialled(from, "10.1.0.2");
  for (const char* from : {"a", "c"})
    played.dialled(from, "10.1.0.1");
  played.dialled("b", "10.1.0.0");
  CHECK_FALSE(played.last.complete);
  played.dialled("c", "10.1.0.0");
  CHECK(is_end(played.last, 3));
}

TEST_CASE(
    "a preferred address that does not answer has a head start, and no more, before another one is used") {
  played_check played(2, 2);
  played.listen();
  played.dialled("a", "10.1.0.1");
  played.dialled("b", "10.2.0.0");
  CHECK_FALSE(played.last.complete);
  REQUIRE(played.last.call_next == start + 10ms + reach_check::head_start);
  CHECK_FALSE(played.check->due(*played.last.call_next - 1ms).complete);
  CHECK(is_end(played.check->due(*played.last.call_next), 2));
}

TEST_CASE("a check ends when no address of a host can be reached any more") {
  played_check played(2, 2);
  played.listen();
  played.dialled("a", "10.1.0.1", "cannot connect: Network is unreachable");
  played.dialled("b", "10.1.0.0");
  CHECK_FALSE(played.last.complete);
  played.dialled("a", "10.2.0.1", "cannot connect: Connection refused");
  CHECK(is_end(played.last, 2));
  CHECK(played.check->attempts().at("b").size() == 2);
}

TEST_CASE("a host that can listen nowhere ends the check with its reason") {
  reach_check check({{"a", {"10.1.0.0"}}, {"b", {"10.1.0.1"}}}, timeout);
  check.begin(start);
  check.reported("a", {{{"10.1.0.0", 0, "no port is free"}}, {}}, start);
  CHECK(is_end(check.reported("b", {{{"10.1.0.1", 0, "no port is free"}}, {}}, start), 2));
  CHECK(check.attempts().at("a") == std::vector<connection_attempt>{{"10.1.0.0", "a", "no port is free"}});
}

TEST_CASE("hosts that do not report delay the job for three times the timeout at most") {
  played_check played(2);
  CHECK_FALSE(played.check->due(start + 3 * timeout - 1ms).complete);
  CHECK(is_end(played.check->due(start + 3 * timeout), 2));
}
