// Messages that no correct member sends, from members that have the job's secret, decoded from their wire
// form by a relay. The relay refuses the message and takes nothing of it, or passes it on for the leader to
// judge; other members are served as before.
#include <functional>

#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// `refused`: the relay returns an error and takes nothing of the message. `passed_on`: a relay or the leader
/// above can judge the message, or it harms no member.
enum class outcome : std::uint8_t { refused, passed_on };

struct attack {
  const char* name;
  outcome expected;
  std::int32_t sender;
  std::function<requests()> alone;      ///< from a member directly below; null if for_others is set
  std::function<gathered()> for_others; ///< from a relay below
  const char* reason = "";
};

requests asking(const std::function<void(requests&)>& fill) {
  requests result;
  fill(result);
  return result;
}

gathered gathering(const std::function<void(gathered&)>& fill) {
  gathered result;
  fill(result);
  return result;
}

attack of_member(const char* name, outcome expected, std::int32_t sender, std::function<void(requests&)> fill,
                 const char* reason = "") {
  return {name, expected, sender, [fill = std::move(fill)] { return asking(fill); }, {}, reason};
}

attack of_relay(const char* name, outcome expected, std::int32_t sender, std::function<void(gathered&)> fill,
                const char* reason = "") {
  return {name, expected, sender, {}, [fill = std::move(fill)] { return gathering(fill); }, reason};
}

constexpr const char* not_below = "it speaks for ranks that are not below it";
constexpr const char* not_planned = "it names a bucket that was not planned";

// The relay under test is made(): on rank 4, with ranks 5 and 6 below it, and the relay on rank 8 with ranks
// 8 and 9.
const std::vector<attack> attacks{
    of_member(
        "requests of a rank outside the set", outcome::refused, 7, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member(
        "requests of rank -1", outcome::refused, -1, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member(
        "requests of the greatest rank", outcome::refused, INT32_MAX, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member("id 0", outcome::refused, 5, [](auto& r) { r.ids = {0}; }),
    of_member(
        "a bucket that was not planned", outcome::refused, 5, [](auto& r) { r.buckets = {77}; }, not_planned),
    of_member(
        "an unplanned bucket after a planned one", outcome::refused, 5,
        [](auto& r) {
          r.buckets = {1, 77};
          r.ids = {13};
        },
        not_planned),
    of_member("more buckets than there can be", outcome::refused, 5,
              [](auto& r) { r.buckets.assign(bucket_limit + 1, 1); }),
    of_member("a bucket many times", outcome::passed_on, 5,
              [](auto& r) { r.buckets.assign(bucket_limit, 1); }),
    of_member("an id many times", outcome::passed_on, 5, [](auto& r) { r.ids.assign(10'000, 11); }),
    of_member("a name many times with different shapes", outcome::passed_on, 5,
              [](auto& r) {
                for (std::int64_t extent = 0; extent < 1000; ++extent)
                  r.full.push_back(full("x", extent));
              }),
    of_member("ids that were never assigned", outcome::passed_on, 5,
              [](auto& r) {
                for (std::uint32_t id = 1; id <= 20'000; ++id)
                  r.ids.push_back(UINT32_MAX - id);
              }),
    of_member("a join, a departure and a withdrawal at once", outcome::passed_on, 5,
              [](auto& r) {
                r.join = true;
                r.leaves.emplace();
                r.withdraw = {"x", "x"};
              }),
    of_member("fast-path rounds of unknown ids", outcome::passed_on, 5,
              [](auto& r) {
                r.left = {{99, UINT64_MAX}, {99, 0}};
                r.buckets = {1};
              }),
    of_relay(
        "gathered requests from a rank that is no relay", outcome::refused, 5,
        [](auto& g) {
          g.ids = {{{11}, {}}};
        },
        not_below),
    of_relay(
        "gathered requests from a rank outside the set", outcome::refused, 7,
        [](auto& g) {
          g.ids = {{{11}, {}}};
        },
        not_below),
    of_relay(
        "gathered requests from rank -1", outcome::refused, -1, [](auto&) {}, not_below),
    of_relay(
        "ids for a rank outside its branch", outcome::refused, 8,
        [](auto& g) {
          g.buckets = {1};
          g.ids = {{{13}, {{5, 1}}}};
        },
        not_below),
    of_relay(
        "a request for ranks beyond its branch", outcome::refused, 8,
        [](auto& g) {
          g.full = {{full("x", 1), {{8, 3}}}};
        },
        not_below),
    of_relay("ids for more ranks than a job has", outcome::refused, 8,
             [](auto& g) {
               g.ids = {{{13}, {{8, UINT32_MAX}}}};
             }),
    of_relay("ids for ranks below 0", outcome::refused, 8,
             [](auto& g) {
               g.ids = {{{13}, {{INT32_MIN, 9}}}};
             }),
    of_relay("ids for an empty run of ranks", outcome::refused, 8,
             [](auto& g) {
               g.ids = {{{13}, {{8, 0}}}};
             }),
    of_relay("ids for runs that overlap", outcome::refused, 8,
             [](auto& g) {
               g.ids = {{{13}, {{8, 2}, {9, 1}}}};
             }),
    of_relay(
        "a separate message of a rank outside its branch", outcome::refused, 8,
        [](auto& g) {
          g.ids = {{{13}, {}}};
          g.apart = {{5, ids({13})}};
        },
        not_below),
    of_relay(
        "a separate message of the relay above", outcome::refused, 8,
        [](auto& g) {
          g.apart = {{4, ids({13})}};
        },
        not_below),
    of_relay("a separate message of the greatest rank", outcome::refused, 8,
             [](auto& g) {
               g.apart = {{INT32_MAX, ids({13})}};
             }),
    of_relay(
        "an unplanned bucket in a separate message", outcome::refused, 8,
        [](auto& g) {
          g.ids = {{{13}, {}}};
          g.apart = {{9, asking([](requests& r) { r.buckets = {77}; })}};
        },
        not_planned),
    of_relay("a bucket for all ranks, and again for each rank", outcome::passed_on, 8,
             [](auto& g) {
               const auto again = asking([](requests& r) { r.buckets = {1, 1}; });
               g.buckets = {1, 1};
               g.apart = {{8, again}, {9, again}, {8, again}};
             }),
    of_relay("thousands of separate messages", outcome::passed_on, 8,
             [](auto& g) {
               g.apart.assign(5000, {9, ids({11, 12, 13})});
             }),
};

// A relay with bucket 1 of ids 11 and 12, where rank 6 has requested ids 12 and 13.
relay busy() {
  auto relay_node = made();
  schedule plan;
  plan.buckets = {{1, {11, 12}, 20ms}};
  relay_node.apply_schedule(plan);
  CHECK(!relay_node.take(6, ids({12, 13}), 0ms));
  return relay_node;
}

/// Delivers the message through the wire format, as from another process, whose encoder checks nothing.
error deliver(relay& to, const attack& from, std::chrono::nanoseconds current_time) {
  const address sender{1, 0, from.sender};
  if (from.alone) {
    const auto message = decode_requests(encode(sender, from.alone()));
    return message ? to.take(from.sender, *message, current_time) : message.error();
  }
  const auto message = decode_gathered(encode(sender, from.for_others()));
  return message ? to.take(from.sender, *message, current_time) : message.error();
}

} // namespace

TEST_CASE("relay: an invalid message is refused whole or passed on, and other members are served") {
  for (const attack& attack : attacks) {
    DYNAMIC_SECTION(attack.name) {
      auto relay_node = busy();
      const auto problem = deliver(relay_node, attack, 1ms);
      CHECK(static_cast<bool>(problem) == (attack.expected == outcome::refused));
      if (attack.expected == outcome::refused) {
        CHECK_THAT(problem.text, Catch::Contains(attack.reason));
        // Nothing of the message is taken: the relay sends what it would send without it.
        auto undisturbed = busy();
        CHECK(relay_node.due(1s) == undisturbed.due(1s));
      }
      relay_node.due(2s);
      all_ask(relay_node, 21, 3s);
      const auto up = relay_node.due(4s);
      REQUIRE(up.ids.size() == 1);
      CHECK(up.ids.front().ids == std::vector<std::uint32_t>{21});
    }
  }
}

TEST_CASE("relay: a message may name a bucket that the relay forgets while it takes the message") {
  auto relay_node = made();
  // Dissolves as many buckets as the relay remembers at most, and opens another one.
  for (std::uint32_t bucket = 1; bucket <= 2 * bucket_limit; ++bucket) {
    schedule plan, over;
    plan.buckets = {{bucket, {bucket}, 20ms}};
    over.dissolved = {bucket};
    relay_node.apply_schedule(plan);
    relay_node.apply_schedule(over);
  }
  schedule plan;
  plan.buckets = {{1000, {1000}, 20ms}};
  relay_node.apply_schedule(plan);
  // Requested twice, the open bucket is dissolved, and the oldest dissolved one is forgotten.
  CHECK(!relay_node.take(5, asking([](requests& r) { r.buckets = {1000, 1000, 1}; }), 1ms));
  CHECK(relay_node.take(5, asking([](requests& r) { r.buckets = {1}; }), 1ms).text.find(not_planned) !=
        std::string::npos);
  relay_node.due(1s);
  all_ask(relay_node, 21, 2s);
  CHECK(relay_node.due(3s).ids.size() == 1);
}
