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

TEST_CASE("a bucket is sent when all of its ids are ready, in every step") {
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

TEST_CASE("ids that have waited too long are released, and their bucket is not used again") {
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

TEST_CASE("released buckets return their waiting ids, and buckets without waiting ids stay") {
  auto accumulator = with_two();
  accumulator.put(12, 1ms);
  CHECK(accumulator.flush_all() == ids{12});
  CHECK(!accumulator.takes(11));
  CHECK(accumulator.takes(21));
  accumulator.put(22, 1ms);
  CHECK(accumulator.flush_bucket(21) == ids{22});
  CHECK(accumulator.flush_bucket(99).empty());
}

TEST_CASE("a dissolved bucket's ids can be found until twice the limit of later buckets have come") {
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

TEST_CASE("an id in a new bucket leaves its old one, and buckets beyond the limit are not accepted") {
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

TEST_CASE("bucket_limit buckets are accepted, and one of them can be replaced") {
  bucket_accumulator accumulator;
  for (std::uint32_t bucket = 1; bucket <= bucket_limit + 1; ++bucket)
    CHECK(accumulator.add({bucket, {bucket + 1000}, 1ms}).empty());
  CHECK(accumulator.takes(bucket_limit + 1000));
  CHECK(!accumulator.takes(bucket_limit + 1001));
  // The bucket's number is in use already, or its id leaves the bucket in use.
  accumulator.add({1, {5000}, 1ms});
  CHECK(accumulator.takes(5000));
  CHECK(!accumulator.takes(1001));
}
