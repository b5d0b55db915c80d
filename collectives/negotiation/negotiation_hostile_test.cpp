// Requests that no correct member sends, from a member that has the job's secret. They are decoded from their
// wire form and negotiated. The leader either names the member or fails the tensor alone.
#include <catch2/catch.hpp>

#include <functional>
#include <numeric>

#include "collectives/negotiation/negotiation.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

constexpr std::int32_t hostile = 2; ///< among ranks 0 to 2

negotiation_options three_members() {
  negotiation_options options;
  options.members = {0, 1, 2};
  options.keeps_sets = true;
  return options;
}

request ask(std::string name, std::vector<std::int64_t> shape = {1}) {
  request asked_request;
  asked_request.name = std::move(name);
  asked_request.signature.shape = std::move(shape);
  return asked_request;
}

/// `refused`: the member is named. `alone`: the requested tensor fails, or never becomes ready. An unknown id
/// or round may have been forgotten while the message was under way, so that its sender is asked.
enum class outcome : std::uint8_t { refused, alone };

struct attack {
  const char* name;
  outcome expected;
  std::function<void(requests&)> fill;
};

std::vector<std::int64_t> dimensions(std::size_t count) {
  return std::vector<std::int64_t>(count, 1);
}

const std::vector<attack> attacks{
    {"an id that was never given", outcome::alone, [](requests& r) { r.ids = {99}; }},
    {"id 0", outcome::refused, [](requests& r) { r.ids = {0}; }},
    {"the greatest id", outcome::alone, [](requests& r) { r.ids = {UINT32_MAX}; }},
    {"an id twice", outcome::alone,
     [](requests& r) {
       r.ids = {1, 1};
     }},
    {"a bucket where there are none", outcome::refused, [](requests& r) { r.buckets = {1}; }},
    {"the greatest bucket", outcome::refused, [](requests& r) { r.buckets = {UINT32_MAX}; }},
    {"a name twice with different shapes", outcome::refused,
     [](requests& r) {
       r.full = {ask("x"), ask("x", {2})};
     }},
    {"a fast-path round of an unknown id", outcome::alone,
     [](requests& r) {
       r.left = {{99, 1}};
     }},
    {"the last fast-path round of an id without a cell", outcome::alone,
     [](requests& r) {
       r.left = {{1, UINT64_MAX}};
     }},
    {"another shape than the others", outcome::alone, [](requests& r) { r.full = {ask("b", {7})}; }},
    {"a negative dimension", outcome::alone, [](requests& r) { r.full = {ask("b", {-1})}; }},
    {"dimensions whose product is no number", outcome::alone,
     [](requests& r) {
       r.full = {ask("b", {INT64_MAX, INT64_MAX, INT64_MAX})};
     }},
    {"ten thousand dimensions", outcome::alone, [](requests& r) { r.full = {ask("b", dimensions(10'000))}; }},
    {"an unknown operation", outcome::alone,
     [](requests& r) {
       r.full = {ask("b")};
       r.full[0].signature.operation = static_cast<operation>(200);
     }},
    {"an unknown dtype", outcome::alone,
     [](requests& r) {
       r.full = {ask("b")};
       r.full[0].signature.dtype = static_cast<dtype>(200);
     }},
    {"a root beyond the job", outcome::alone,
     [](requests& r) {
       r.full = {ask("b")};
       r.full[0].signature.operation = operation::broadcast;
       r.full[0].signature.root = INT32_MAX;
     }},
    {"a group of the greatest size", outcome::alone,
     [](requests& r) {
       r.full = {ask("b")};
       r.full[0].group = UINT32_MAX;
       r.full[0].group_size = UINT32_MAX;
     }},
    {"a group of size 0", outcome::alone,
     [](requests& r) {
       r.full = {ask("b")};
       r.full[0].group = 5;
     }},
    {"an empty name", outcome::alone, [](requests& r) { r.full = {ask("")}; }},
    {"the withdrawal of a tensor that was not requested", outcome::alone,
     [](requests& r) { r.withdraw = {"never heard of"}; }},
    {"a set of ranks that do not exist", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::add, 0, {{-1, 0, 99}}};
     }},
    {"a set of one rank twice", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::add, 0, {{1, 1}}};
     }},
    {"many sets", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::add, 0, std::vector<std::vector<std::int32_t>>(100, {0, 1})};
     }},
    {"the removal of a set that was never added", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::remove, 77, {}};
     }},
    {"the removal of the global set", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::remove, 0, {}};
     }},
    {"ids of sets that do not exist", outcome::alone,
     [](requests& r) {
       r.change = set_change{set_change_kind::create, 0, {{0, 1}}, {1, 2, 3, 4}};
     }},
    {"an unknown change", outcome::alone,
     [](requests& r) {
       r.change = set_change{static_cast<set_change_kind>(99), 1, {{0}}};
     }},
    {"a fault in a set that does not exist", outcome::alone,
     [](requests& r) {
       r.faults = {{77, "x"}};
     }},
    {"a fault in the global set", outcome::alone,
     [](requests& r) {
       r.faults = {{0, "x"}};
     }},
};

requests full(std::vector<request> request_list) {
  requests message;
  message.full = std::move(request_list);
  return message;
}

} // namespace

TEST_CASE("negotiation: a hostile member is named, or its tensor fails alone", "[negotiation]") {
  for (const attack& attack : attacks) {
    DYNAMIC_SECTION(attack.name) {
      negotiation leader(three_members());
      for (std::int32_t rank = 0; rank < 3; ++rank) // "a" has id 1
        leader.receive(rank, full({ask("a")}), 0ns);
      for (std::int32_t rank = 0; rank < hostile; ++rank)
        REQUIRE_FALSE(leader.receive(rank, full({ask("b")}), 0ns).breach);
      requests message;
      attack.fill(message);
      // The message passes the wire format as from another process, whose encoder checks nothing.
      const auto read = decode_requests(encode(address{1, 0, hostile}, message));
      negotiation_result decision;
      if (read)
        decision = leader.receive(hostile, *read, 1ns);
      const bool named = !read || (decision.breach && decision.broken_by == hostile);
      if (attack.expected == outcome::refused)
        CHECK(named);
      CHECK(decision.ready.empty());
      for (const auto& failure : decision.failures)
        CHECK_FALSE(failure.reason.text.empty());
      // The other members go on, and no tensor is ready without the hostile member.
      for (std::int32_t rank = 0; rank < hostile; ++rank) {
        const auto next = leader.receive(rank, full({ask("c")}), 2ns);
        CHECK(next.ready.empty());
        CHECK_FALSE(next.breach);
      }
      // A correct message of the hostile member is still understood.
      if (!named)
        CHECK(leader.receive(hostile, full({ask("c")}), 3ns).ready.size() == 1);
    }
  }
}

TEST_CASE("negotiation: messages of ranks outside the set are refused and change nothing", "[negotiation]") {
  for (const std::int32_t rank : {-1, 3, INT32_MAX, INT32_MIN}) {
    negotiation leader(three_members());
    leader.receive(0, full({ask("a")}), 0ns);
    leader.receive(1, full({ask("a")}), 0ns);
    const auto decision = leader.receive(rank, full({ask("a")}), 0ns);
    CHECK(decision.breach);
    CHECK(decision.broken_by == rank);
    CHECK(decision.ready.empty());
    CHECK(leader.receive(2, full({ask("a")}), 0ns).ready.size() == 1);
  }
}
