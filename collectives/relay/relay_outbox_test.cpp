#include "collectives/relay/relay_outbox.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const member_mask everyone = all_members(3);

member_mask only(std::size_t member) {
  member_mask mask(3);
  mask.add(member);
  return mask;
}

// An outbox for ranks 4, 5 and 8, whose messages wait up to 2 ms for an answer.
relay_outbox empty_outbox() {
  return {{4, 5, 8}, 2ms};
}

// The same outbox with bucket 7 of ids 1 and 2.
relay_outbox with_bucket() {
  auto outbox = empty_outbox();
  outbox.add({7, {1, 2}, 10ms});
  return outbox;
}

request named(const std::string& name) {
  request result;
  result.name = name;
  return result;
}

gathered ids(std::vector<std::uint32_t> numbers, rank_runs ranks = {}) {
  gathered result;
  result.ids = {{std::move(numbers), std::move(ranks)}};
  return result;
}

} // namespace

TEST_CASE("requests of the same members are sent together, and requests of all members without ranks") {
  auto outbox = empty_outbox();
  CHECK(outbox.due(0ms).empty());
  CHECK_FALSE(outbox.wake_at());
  outbox.put(1, everyone);
  outbox.put(2, only(2));
  outbox.put_complete(3, everyone, 0ms);
  outbox.put(named("a"), only(0));
  outbox.put(named("b"), everyone);
  outbox.put_apart(5, {});
  CHECK(outbox.wake_at() == std::chrono::nanoseconds::min());
  gathered all;
  all.ids = {{{1, 3}, {}}, {{2}, {{8, 1}}}};
  all.full = {{named("a"), {{4, 1}}}, {named("b"), {}}};
  all.apart = {{5, {}}};
  CHECK(outbox.due(0ms) == all);
  CHECK(outbox.due(5ms).empty());
}

TEST_CASE("a message waits until all of the previous one is answered, up to a bound") {
  auto outbox = empty_outbox();
  outbox.put(1, everyone);
  outbox.put(named("a"), everyone);
  CHECK_FALSE(outbox.due(1ms).empty());
  outbox.put(2, everyone);
  CHECK(outbox.due(2ms).empty());
  CHECK(outbox.wake_at() == 3ms);
  outbox.answered(1);
  CHECK(outbox.due(2ms).empty());
  outbox.answered(std::string("a"));
  CHECK(outbox.due(2ms) == ids({2}));
  outbox.put(1, everyone);
  CHECK(outbox.due(4ms - 1ns).empty());
  CHECK(outbox.due(4ms) == ids({1}));
}

TEST_CASE("a complete bucket is sent by its number, and is answered id by id") {
  auto outbox = with_bucket();
  outbox.put_complete(1, everyone, 1ms);
  CHECK(outbox.due(1ms).empty());
  CHECK(outbox.holds(1));
  CHECK(outbox.wake_at() == 11ms);
  outbox.put_complete(2, everyone, 2ms);
  gathered whole;
  whole.buckets = {7};
  CHECK(outbox.due(2ms) == whole);
  outbox.put(3, everyone);
  outbox.answered(1);
  CHECK(outbox.due(3ms).empty());
  outbox.answered(2);
  CHECK(outbox.due(3ms) == ids({3}));
}

TEST_CASE("ids that wait in a bucket are sent when the bucket is released, for any reason") {
  const auto sent_after = [](auto reason) {
    auto outbox = with_bucket();
    outbox.put_complete(1, everyone, 1ms);
    reason(outbox);
    CHECK_FALSE(outbox.takes(2));
    REQUIRE(outbox.find(7));
    return outbox.due(11ms);
  };
  CHECK(sent_after([](auto& outbox) { outbox.flush_bucket(2); }) == ids({1}));
  CHECK(sent_after([](auto& outbox) { outbox.flush_all(); }) == ids({1}));
  CHECK(sent_after([](auto& outbox) { outbox.flush_overdue(11ms); }) == ids({1}));
  CHECK(sent_after([](auto& outbox) { outbox.dissolve(7); }) == ids({1}));
  CHECK(sent_after([](auto& outbox) { outbox.add({8, {1, 3}, 10ms}); }) == ids({1}));
}

TEST_CASE("an id of which a part is sent before dissolves its bucket") {
  auto outbox = with_bucket();
  outbox.put_complete(1, everyone, 1ms);
  outbox.put_complete(2, only(1), 1ms);
  gathered both;
  both.ids = {{{1}, {}}, {{2}, {{5, 1}}}};
  CHECK(outbox.due(1ms) == both);
  CHECK_FALSE(outbox.takes(1));
}
