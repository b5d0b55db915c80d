#include "actors/process_set/shared_state.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE(
    "if all sets fail while one restarts, its callers learn first of the restart, and then of the end") {
  set_table table;
  const auto set = std::make_shared<shared_set_state>();
  set->id = 1;
  set->epoch = {std::make_shared<set_epochs>(), 0};
  set->queue = std::make_shared<submission_queue>(
      1, 1, 64, [] {}, std::vector<std::int32_t>{0}, set->epoch);
  table.built(set);
  table.open(set);
  table.suspend(1);
  set->epoch.epochs->restarted({error_kind::disconnected, "it was restarted"});
  CHECK(table.fail({error_kind::unknown, "the manager failed"}) == submission_queue::attempt::done);
  for (const auto* const reason : {"it was restarted", "the manager failed", "the manager failed"}) {
    const auto operation = table.find(1)->queue->submit(submission{});
    REQUIRE_FALSE(operation);
    CHECK(operation.error().text == reason);
  }
}
