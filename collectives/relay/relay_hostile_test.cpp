// What no member sends, of members that have the job's secret, as a relay reads it off the wire. It refuses
// the message and takes nothing of it, or passes it on for the leader to judge; the others are served as
// before.
#include <functional>

#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// `refused`: with an error, and nothing of it is taken. `passed_on`: somebody above can judge it, or nobody
/// is harmed by it.
enum class outcome : std::uint8_t { refused, passed_on };

struct attack {
  const char* name;
  outcome expected;
  std::int32_t sender;
  std::function<requests()> alone;      ///< of a member directly below; null: the other one
  std::function<gathered()> for_others; ///< of a relay below
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
constexpr const char* not_planned = "it names a bucket that nobody planned";

// The relay is made(): of rank 4, with 5 and 6 below it, and the relay of rank 8 with 8 and 9.
const std::vector<attack> attacks{
    of_member(
        "requests of a rank beside the set", outcome::refused, 7, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member(
        "requests of rank -1", outcome::refused, -1, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member(
        "requests of the greatest rank", outcome::refused, INT32_MAX, [](auto& r) { r.ids = {1}; },
        "it is not in this process set"),
    of_member("id 0", outcome::refused, 5, [](auto& r) { r.ids = {0}; }),
    of_member(
        "a bucket that nobody planned", outcome::refused, 5, [](auto& r) { r.buckets = {77}; }, not_planned),
    of_member(
        "a bucket that nobody planned, behind one that stands", outcome::refused, 5,
        [](auto& r) {
          r.buckets = {1, 77};
          r.ids = {13};
        },
        not_planned),
    of_member("more buckets than there can be", outcome::refused, 5,
              [](auto& r) { r.buckets.assign(bucket_limit + 1, 1); }),
    of_member("a bucket again and again", outcome::passed_on, 5,
              [](auto& r) { r.buckets.assign(bucket_limit, 1); }),
    of_member("an id again and again", outcome::passed_on, 5, [](auto& r) { r.ids.assign(10'000, 11); }),
    of_member("a name again and again, each time otherwise", outcome::passed_on, 5,
              [](auto& r) {
                for (std::int64_t extent = 0; extent < 1000; ++extent)
                  r.full.push_back(full("x", extent));
              }),
    of_member("ids that nobody was given", outcome::passed_on, 5,
              [](auto& r) {
                for (std::uint32_t id = 1; id <= 20'000; ++id)
                  r.ids.push_back(UINT32_MAX - id);
              }),
    of_member("joins, leaves and withdraws at once", outcome::passed_on, 5,
              [](auto& r) {
                r.join = true;
                r.leaves.emplace();
                r.withdraw = {"x", "x"};
              }),
    of_member("leaves rounds of fast paths that are not there", outcome::passed_on, 5,
              [](auto& r) {
                r.left = {{99, UINT64_MAX}, {99, 0}};
                r.buckets = {1};
              }),
    of_relay(
        "gathered by who is no relay", outcome::refused, 5,
        [](auto& g) {
          g.ids = {{{11}, {}}};
        },
        not_below),
    of_relay(
        "gathered by a rank beside the set", outcome::refused, 7,
        [](auto& g) {
          g.ids = {{{11}, {}}};
        },
        not_below),
    of_relay(
        "gathered by nobody", outcome::refused, -1, [](auto&) {}, not_below),
    of_relay(
        "ids for a rank beside its branch", outcome::refused, 8,
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
        "the word of a rank beside its branch", outcome::refused, 8,
        [](auto& g) {
          g.ids = {{{13}, {}}};
          g.apart = {{5, ids({13})}};
        },
        not_below),
    of_relay(
        "the word of the relay above", outcome::refused, 8,
        [](auto& g) {
          g.apart = {{4, ids({13})}};
        },
        not_below),
    of_relay("the word of the greatest rank", outcome::refused, 8,
             [](auto& g) {
               g.apart = {{INT32_MAX, ids({13})}};
             }),
    of_relay(
        "a bucket that nobody planned, apart", outcome::refused, 8,
        [](auto& g) {
          g.ids = {{{13}, {}}};
          g.apart = {{9, asking([](requests& r) { r.buckets = {77}; })}};
        },
        not_planned),
    of_relay("a bucket for all, and again for each", outcome::passed_on, 8,
             [](auto& g) {
               const auto again = asking([](requests& r) { r.buckets = {1, 1}; });
               g.buckets = {1, 1};
               g.apart = {{8, again}, {9, again}, {8, again}};
             }),
    of_relay("a word apart thousands of times", outcome::passed_on, 8,
             [](auto& g) {
               g.apart.assign(5000, {9, ids({11, 12, 13})});
             }),
};

// Bucket 1 is ids 11 and 12; rank 6 has asked for 12 and 13.
relay busy() {
  auto relay_node = made();
  schedule plan;
  plan.buckets = {{1, {11, 12}, 20ms}};
  relay_node.hear(plan);
  CHECK(!relay_node.take(6, ids({12, 13}), 0ms));
  return relay_node;
}

/// As it comes from another process, whose encoder checks nothing.
error deliver(relay& to, const attack& from, std::chrono::nanoseconds current_time) {
  const address sender{1, 0, from.sender};
  if (from.alone) {
    const auto said = decode_requests(encode(sender, from.alone()));
    return said ? to.take(from.sender, *said, current_time) : said.error();
  }
  const auto said = decode_gathered(encode(sender, from.for_others()));
  return said ? to.take(from.sender, *said, current_time) : said.error();
}

} // namespace

TEST_CASE("relay: what no member sends is refused whole, or passed on, and the others are served") {
  for (const attack& attack : attacks) {
    DYNAMIC_SECTION(attack.name) {
      auto relay_node = busy();
      const auto problem = deliver(relay_node, attack, 1ms);
      CHECK(static_cast<bool>(problem) == (attack.expected == outcome::refused));
      if (attack.expected == outcome::refused) {
        CHECK_THAT(problem.text, Catch::Contains(attack.reason));
        // Nothing of it: what goes up is what goes up without it.
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

TEST_CASE("relay: a message that makes it forget a bucket that the same message names ends nothing") {
  auto relay_node = made();
  // The oldest of as many as are remembered at the most, and one that stands.
  for (std::uint32_t bucket = 1; bucket <= 2 * bucket_limit; ++bucket) {
    schedule plan, over;
    plan.buckets = {{bucket, {bucket}, 20ms}};
    over.dissolved = {bucket};
    relay_node.hear(plan);
    relay_node.hear(over);
  }
  schedule plan;
  plan.buckets = {{1000, {1000}, 20ms}};
  relay_node.hear(plan);
  // Asked for twice, what stands is dissolved, and the oldest is forgotten.
  CHECK(!relay_node.take(5, asking([](requests& r) { r.buckets = {1000, 1000, 1}; }), 1ms));
  CHECK(relay_node.take(5, asking([](requests& r) { r.buckets = {1}; }), 1ms).text.find(not_planned) !=
        std::string::npos);
  relay_node.due(1s);
  all_ask(relay_node, 21, 2s);
  CHECK(relay_node.due(3s).ids.size() == 1);
}
