#include "collectives/relay/bucket_accumulator.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using ids = std::vector<std::uint32_t>;

bucket_accumulator with_two() {
  bucket_accumulator shelf;
  CHECK(shelf.add({1, {11, 12, 13}, 20ms}).empty());
  CHECK(shelf.add({2, {21, 22}, 50ms}).empty());
  return shelf;
}

} // namespace

TEST_CASE("a bucket goes up when all of it is ready, step after step") {
  auto shelf = with_two();
  CHECK(!shelf.takes(5));
  for (int step = 0; step < 3; ++step) {
    CHECK(!shelf.put(12, 1ms));
    CHECK(shelf.holds(12));
    CHECK(!shelf.put(21, 1ms));
    CHECK(!shelf.put(13, 2ms));
    CHECK(shelf.put(11, 3ms) == 1u);
    CHECK(!shelf.holds(12));
    CHECK(shelf.put(22, 3ms) == 2u);
    CHECK(!shelf.wake_at());
  }
}

TEST_CASE("what has waited too long comes off, and its bucket is used no more") {
  auto shelf = with_two();
  shelf.put(12, 1ms);
  shelf.put(11, 15ms);
  shelf.put(21, 2ms);
  CHECK(shelf.wake_at() == 21ms);
  CHECK(shelf.overdue(20ms).empty());
  CHECK(shelf.overdue(21ms) == ids{11, 12});
  CHECK(!shelf.takes(13));
  CHECK(shelf.wake_at() == 52ms);
  CHECK(*shelf.find(1) == ids{11, 12, 13});
}

TEST_CASE("what must not be overtaken comes off; buckets that have nothing here stay") {
  auto shelf = with_two();
  shelf.put(12, 1ms);
  CHECK(shelf.let_all_go() == ids{12});
  CHECK(!shelf.takes(11));
  CHECK(shelf.takes(21));
  shelf.put(22, 1ms);
  CHECK(shelf.let_go(21) == ids{22});
  CHECK(shelf.let_go(99).empty());
}

TEST_CASE("what a bucket stood for is known for a while after it was dissolved") {
  auto shelf = with_two();
  shelf.put(13, 1ms);
  CHECK(shelf.dissolve(1) == ids{13});
  CHECK(shelf.dissolve(1).empty());
  CHECK(shelf.dissolve(99).empty());
  REQUIRE(shelf.find(1));
  CHECK(!shelf.find(99));
  for (std::uint32_t bucket = 3; bucket < 3 + 2 * bucket_limit; ++bucket) {
    shelf.add({bucket, {bucket + 1000}, 1ms});
    shelf.dissolve(bucket);
  }
  CHECK(!shelf.find(1));
  CHECK(shelf.find(3));
}

TEST_CASE("an id that is planned anew leaves its bucket, and more buckets than may be are none") {
  auto shelf = with_two();
  shelf.put(11, 1ms);
  CHECK(shelf.add({3, {12, 31}, 1ms}) == ids{11});
  CHECK(shelf.takes(31));
  CHECK(!shelf.takes(13));
  for (std::uint32_t bucket = 4; bucket < 200; ++bucket)
    shelf.add({bucket, {bucket + 1000}, 1ms});
  CHECK(shelf.takes(1004));
  CHECK(!shelf.takes(1199));
  CHECK(!shelf.find(199));
}

TEST_CASE("exactly as many buckets stand as may be, and one of them can be planned anew") {
  bucket_accumulator shelf;
  for (std::uint32_t bucket = 1; bucket <= bucket_limit + 1; ++bucket)
    CHECK(shelf.add({bucket, {bucket + 1000}, 1ms}).empty());
  CHECK(shelf.takes(bucket_limit + 1000));
  CHECK(!shelf.takes(bucket_limit + 1001));
  // Its number stands already, or its id leaves the bucket that stands.
  shelf.add({1, {5000}, 1ms});
  CHECK(shelf.takes(5000));
  CHECK(!shelf.takes(1001));
}
