#include "elastic/generation_record.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a generation has the slots that it started with, by rank", "[generation_record]") {
  generation_record record;
  CHECK(record.number() == 0);
  CHECK_FALSE(record.running());
  record.start({4, 2}, 0);
  CHECK(record.number() == 1);
  CHECK(record.running());
  CHECK(record.slot_of_rank(0) == 4);
  CHECK(record.slot_of_rank(1) == 2);
  CHECK_FALSE(record.slot_of_rank(2));
  CHECK_FALSE(record.slot_of_rank(-1));
  CHECK(record.has(2));
  CHECK_FALSE(record.has(1));
}

TEST_CASE("changes are counted for each generation, and are removals until one is not",
          "[generation_record]") {
  generation_record record;
  record.start({0, 1}, 0);
  CHECK_FALSE(record.only_removals()); // nothing has changed
  record.change(true);
  CHECK(record.pending_changes() == changed{1, 1, true});
  CHECK(record.only_removals());
  record.change(false);
  record.change(true);
  CHECK(record.pending_changes() == changed{1, 3, false});
  CHECK_FALSE(record.only_removals());
  record.start({0}, 0);
  CHECK(record.pending_changes() == changed{2, 0, true});
}

TEST_CASE("a generation that ends by a loss leaves its members at different steps", "[generation_record]") {
  generation_record record;
  CHECK(record.lost_somebody()); // no member has a step yet
  record.start({0, 1}, 0);
  CHECK_FALSE(record.lost_somebody());
  record.change(true);
  record.end_in_order();
  CHECK_FALSE(record.running());
  CHECK(record.only_removals());
  record.start({0, 1}, 0);
  record.change(true);
  record.end_by_loss();
  CHECK_FALSE(record.running());
  CHECK(record.lost_somebody());
  CHECK_FALSE(record.only_removals());
}

TEST_CASE("the newest state is one that a member of the last generation had or got", "[generation_record]") {
  generation_record record;
  CHECK(record.is_newest(0, 3)); // the state is from an earlier job
  CHECK_FALSE(record.is_newest(0, 0));
  record.start({0, 1}, 0);
  CHECK_FALSE(record.had_state());
  record.start({0, 1}, 0);
  record.start({0, 1}, 1);
  CHECK(record.had_state());
  CHECK(record.is_newest(1, 3)); // the member got the state in this generation
  CHECK(record.is_newest(1, 1)); // the member had the state when this generation began
  CHECK_FALSE(record.is_newest(1, 2));
  CHECK_FALSE(record.is_newest(1, 0));
  CHECK_FALSE(record.is_newest(2, 3)); // the member was not in this generation
}

TEST_CASE("a record that was stored is restored unchanged", "[generation_record]") {
  generation_record record;
  record.start({1, 0}, 0);
  record.start({3, 1}, 1);
  record.change(false);
  job_image image;
  record.store(image);
  CHECK(image.generation == 2);
  CHECK(image.running);
  CHECK(image.slots_by_rank == std::vector<std::int32_t>{3, 1});
  CHECK(image.changes == 1);
  CHECK_FALSE(image.removals_only);
  CHECK_FALSE(image.lost_somebody);
  CHECK(image.state_generation == 1);
  job_image again;
  generation_record::restored(image).store(again);
  CHECK(again == image);
}
