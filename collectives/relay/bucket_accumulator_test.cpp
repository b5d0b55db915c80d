#include "collectives/relay/bucket_accumulator.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using ids = std::vector<std::uint32_t>;

bucket_accumulator with_two() {
  bucket_accumulator accumulator;
  CHECK(accumulator.add({1, {11, 12, 13}, 20ms}).empty());
  CHECK(accumulator.add({2, {21, 22}, 50ms}).empty());
  return accumulator;
}

} // namespace

TEST_CASE("a bucket goes up when all of it is ready, step after step") {
  auto accumulator = with_two();
  CHECK(!accumulator.takes(5));
  for (int step = 0; step < 3; ++step) {
    CHECK(!accumulator.put(12, 1ms));
    CHECK(accumulator.holds(12));
    CHECK(!accumulator.put(21, 1ms));
    CHECK(!accumulator.put(13, 2ms));
    CHECK(accumulator.put(11, 3ms) == 1u);
    CHECK(!accumulator.holds(12));
    CHECK(accumulator.put(22, 3ms) == 2u);
    CHECK(!accumulator.wake_at());
  }
}

TEST_CASE("what has waited too long comes off, and its bucket is used no more") {
  auto accumulator = with_two();
  accumulator.put(12, 1ms);
  accumulator.put(11, 15ms);
  accumulator.put(21, 2ms);
  CHECK(accumulator.wake_at() == 21ms);
  CHECK(accumulator.overdue(20ms).empty());
  CHECK(accumulator.overdue(21ms) == ids{11, 12});
  CHECK(!accumulator.takes(13));
  CHECK(accumulator.wake_at() == 52ms);
  CHECK(*accumulator.find(1) == ids{11, 12, 13});
}

TEST_CASE("what must not be overtaken comes off; buckets that have nothing here stay") {
  auto accumulator = with_two();
  accumulator.put(12, 1ms);
  CHECK(accumulator.let_all_go() == ids{12});
  CHECK(!accumulator.takes(11));
  CHECK(accumulator.takes(21));
  accumulator.put(22, 1ms);
  CHECK(accumulator.let_go(21) == ids{22});
  CHECK(accumulator.let_go(99).empty());
}

TEST_CASE("what a bucket stood for is known for a while after it was dissolved") {
  auto accumulator = with_two();
  accumulator.put(13, 1ms);
  CHECK(accumulator.dissolve(1) == ids{13});
  CHECK(accumulator.dissolve(1).empty());
  CHECK(accumulator.dissolve(99).empty());
  REQUIRE(accumulator.find(1));
  CHECK(!accumulator.find(99));
  for (std::uint32_t bucket = 3; bucket < 3 + 2 * bucket_limit; ++bucket) {
    accumulator.add({bucket, {bucket + 1000}, 1ms});
    accumulator.dissolve(bucket);
  }
  CHECK(!accumulator.find(1));
  CHECK(accumulator.find(3));
}

TEST_CASE("an id that is planned anew leaves its bucket, and more buckets than may be are none") {
  auto accumulator = with_two();
  accumulator.put(11, 1ms);
  CHECK(accumulator.add({3, {12, 31}, 1ms}) == ids{11});
  CHECK(accumulator.takes(31));
  CHECK(!accumulator.takes(13));
  for (std::uint32_t bucket = 4; bucket < 200; ++bucket)
    accumulator.add({bucket, {bucket + 1000}, 1ms});
  CHECK(accumulator.takes(1004));
  CHECK(!accumulator.takes(1199));
  CHECK(!accumulator.find(199));
}

TEST_CASE("exactly as many buckets stand as may be, and one of them can be planned anew") {
  bucket_accumulator accumulator;
  for (std::uint32_t bucket = 1; bucket <= bucket_limit + 1; ++bucket)
    CHECK(accumulator.add({bucket, {bucket + 1000}, 1ms}).empty());
  CHECK(accumulator.takes(bucket_limit + 1000));
  CHECK(!accumulator.takes(bucket_limit + 1001));
  // Its number stands already, or its id leaves the bucket that stands.
  accumulator.add({1, {5000}, 1ms});
  CHECK(accumulator.takes(5000));
  CHECK(!accumulator.takes(1001));
}
