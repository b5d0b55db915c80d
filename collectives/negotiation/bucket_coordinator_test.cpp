#include "collectives/negotiation/bucket_coordinator.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using ids = bucket_coordinator::ids;
using count = bucket_coordinator::count;

member_mask only(const std::vector<std::size_t>& members) {
  member_mask mask(5);
  for (const auto member : members)
    mask.add(member);
  return mask;
}

// Member 0 has no relay; one relay forwards for members 1 and 2, another one for members 3 and 4.
const member_mask near = only({1, 2});
const member_mask far = only({3, 4});

// Bucket 1 is open and has ids 1 and 2, whose rows are `first` and `second`.
struct job {
  job() {
    for (const auto row : {first, second})
      rows.tie(row, row + 1);
    for (int step = 0; step < 2; ++step)
      for (const std::uint32_t id : {1, 2})
        buckets.watch(id, 100, 1ms, 2ms);
    const auto planned = buckets.plan();
    REQUIRE(planned == std::vector<bucket>{{1, {1, 2}, 10ms}});
    buckets.open(planned[0], {first, second});
  }

  count add(const member_mask& members, std::chrono::nanoseconds current_time = 5ms) {
    return buckets.add(1, members, rows, current_time);
  }
  bool asked(std::int32_t member) const {
    return rows.asked().has(first, member) && rows.asked().has(second, member);
  }
  bool asked_any() const { return rows.busy(first) || rows.busy(second); }

  request_table rows{{0, 1, 2, 3, 4}};
  request_table::row_id first = rows.open("a");
  request_table::row_id second = rows.open("b");
  bucket_coordinator buckets{1, only({1, 2, 3, 4})};
};

} // namespace

TEST_CASE("a bucket is complete when every relay has requested it, and its rows are untouched before") {
  job play;
  for (int step = 0; step < 3; ++step) {
    CHECK(play.add(far) == count::waiting);
    CHECK_FALSE(play.asked_any());
    CHECK(play.add(near) == count::complete);
  }
}

TEST_CASE("a repeated request of one relay for a bucket is not counted") {
  job play;
  play.add(far);
  CHECK(play.add(far) == count::repeated);
}

TEST_CASE("a bucket is counted in rows while a relayed member waits in any of its rows") {
  job play;
  play.rows.add_known(play.second, 3, 5ms);
  CHECK(play.add(near) == count::in_rows);
  play.rows.clear(play.second);
  // A member without a relay that waits in a row is no reason to count in rows.
  play.rows.tie(play.second, 2);
  play.rows.add_known(play.first, 0, 5ms);
  CHECK(play.add(near) == count::waiting);
}

TEST_CASE("a bucket is counted in rows while a member has joined") {
  job play;
  play.rows.join(0);
  CHECK(play.add(near) == count::in_rows);
  play.rows.leave_join();
}

TEST_CASE(
    "a member that waits in a bucket for too long is entered in its rows, with the time of its request") {
  job play;
  play.add(far, 5ms);
  play.buckets.spell_out_late(play.rows, 15ms, 10ms);
  CHECK_FALSE(play.asked_any());
  play.buckets.spell_out_late(play.rows, 16ms, 10ms);
  CHECK(play.asked(3));
  CHECK(play.asked(4));
  CHECK_FALSE(play.asked(1));
  CHECK(play.rows.since(play.first) == 5ms);
  CHECK(play.add(near) == count::in_rows);
}

TEST_CASE("members that wait in a bucket are entered in its rows once a member joins") {
  job play;
  play.add(near);
  play.buckets.interrupt(play.rows);
  CHECK(play.asked(1));
  CHECK(play.asked(2));
  CHECK(play.buckets.is_open(1));
}

TEST_CASE("dissolving a bucket enters its waiting members in its rows, and its ids can still be found") {
  job play;
  play.add(near);
  CHECK(play.buckets.dissolve(1, play.rows) == ids{1, 2});
  CHECK(play.asked(1));
  CHECK_FALSE(play.asked(3));
  CHECK_FALSE(play.buckets.is_open(1));
  REQUIRE(play.buckets.find(1));
  CHECK(*play.buckets.find(1) == ids{1, 2});
  CHECK_FALSE(play.buckets.find(2));
}

TEST_CASE("dissolving a bucket that no relay has requested enters no member in its rows") {
  job play;
  play.buckets.dissolve(1, play.rows);
  CHECK_FALSE(play.asked_any());
}

TEST_CASE("no bucket is planned after a step with a join or a forgotten id, nor with a limit of 0") {
  const auto plans = [](std::size_t limit, auto disturb) {
    request_table rows({0, 1, 2, 3, 4});
    bucket_coordinator buckets(limit, only({1, 2, 3, 4}));
    for (int step = 0; step < 2; ++step)
      for (const std::uint32_t id : {1, 2})
        buckets.watch(id, 100, 1ms, 2ms);
    disturb(buckets, rows);
    return buckets.plan().size();
  };
  CHECK(plans(1, [](auto&, auto&) {}) == 1);
  CHECK(plans(0, [](auto&, auto&) {}) == 0);
  CHECK(plans(1, [](auto& buckets, auto& rows) { buckets.interrupt(rows); }) == 0);
  CHECK(plans(1, [](auto& buckets, auto&) { buckets.forget(1); }) == 0);
}
