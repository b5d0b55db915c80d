// The members of a job, its process sets and its stalls through the C interface.
#include "bindings/c/job_testing.hpp"

#include <chrono>
#include <future>
#include <latch>

using namespace farandole::c_testing;

namespace {

// Lists numbers by two calls, as the interface requires: one for the count and one for the numbers.
template <class Number, class List>
std::vector<Number> listed(List list) {
  std::size_t count = 0;
  if (list(static_cast<Number*>(nullptr), std::size_t{0}, &count) != FARANDOLE_OK)
    return {};
  std::vector<Number> all(count);
  list(all.data(), all.size(), &count);
  return all;
}

std::vector<std::uint32_t> sets_of(const farandole_runtime* runtime) {
  return listed<std::uint32_t>([&](auto* numbers, std::size_t capacity, std::size_t* count) {
    return farandole_list_process_sets(runtime, numbers, capacity, count, nullptr);
  });
}

std::vector<std::int32_t> ranks_of(const farandole_runtime* runtime, std::uint32_t set) {
  return listed<std::int32_t>([&](auto* numbers, std::size_t capacity, std::size_t* count) {
    return farandole_list_ranks(runtime, set, numbers, capacity, count, nullptr);
  });
}

/// A member's observations of a set from its addition to its removal.
struct set_observation {
  farandole_status added = FARANDOLE_UNKNOWN, differing = FARANDOLE_OK, removed = FARANDOLE_UNKNOWN;
  std::uint32_t set = 0;
  std::vector<std::uint32_t> before, after;
  std::vector<std::int32_t> ranks, ranks_after;
  answer inside, end;
  float sum = 0;

  explicit set_observation(farandole_runtime* runtime) {
    const std::int32_t members[] = {2, 1}, own[] = {farandole_rank(runtime)};
    const farandole_process_set wanted{members, 2}, other{own, 1};
    added = farandole_add_process_set(runtime, &wanted, &set, nullptr);
    before = sets_of(runtime);
    ranks = ranks_of(runtime, set);
    tensor entry(runtime, "sum", {1});
    auto asked = entry.request();
    asked.set = set;
    farandole_handle* handle = nullptr;
    inside.status = farandole_submit(runtime, &asked, &handle, nullptr);
    entry.adopt(handle);
    if (handle)
      inside = entry.wait();
    sum = entry.output[0];
    std::uint32_t none = 0;
    differing = farandole_add_process_set(runtime, &other, &none, nullptr);
    removed = farandole_remove_process_set(runtime, set, nullptr);
    after = sets_of(runtime);
    ranks_after = ranks_of(runtime, set);
    end = tensor(runtime, "nobody leaves before all have come here", {1}).reduce();
  }
};

} // namespace

TEST_CASE("process sets are added, listed and removed through the C interface") {
  job together(3);
  std::vector<std::unique_ptr<set_observation>> observations(3);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    observations[rank] = std::make_unique<set_observation>(runtime);
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    auto& entry = *observations.at(rank);
    CHECK(entry.added == FARANDOLE_OK);
    CHECK(entry.set == 1);
    CHECK(entry.before == std::vector<std::uint32_t>{0, 1});
    CHECK(entry.ranks == std::vector<std::int32_t>{1, 2});
    CHECK(entry.inside.status == (rank == 0 ? FARANDOLE_INVALID_ARGUMENT : FARANDOLE_OK));
    CHECK(entry.sum == (rank == 0 ? 0 : 2));
    CHECK(entry.differing == FARANDOLE_INVALID_ARGUMENT);
    CHECK(entry.removed == FARANDOLE_OK);
    CHECK(entry.after == std::vector<std::uint32_t>{0});
    CHECK(entry.ranks_after.empty());
    CHECK(entry.end.text == "");
  }
}

TEST_CASE("a member that withdraws announces one removal to all members of an elastic job") {
  struct view {
    std::uint64_t generation = 0, changes = 0;
    int must_sync = 0, joined_late = 0, removals_only = 0;
    bool operator==(const view&) const = default;
  };
  job together(2, true);
  std::vector<view> views(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    auto& seen = views[rank];
    seen.generation = farandole_generation(runtime);
    seen.must_sync = farandole_must_sync(runtime);
    seen.joined_late = farandole_joined_late(runtime);
    if (rank == 1)
      farandole_withdraw(runtime);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (seen.changes == 0 && std::chrono::steady_clock::now() < deadline) {
      farandole_membership_change(runtime, &seen.changes, &seen.removals_only);
      std::this_thread::yield();
    }
    // This keeps each member in the job until the other member has learnt of the removal.
    tensor last(runtime, "last", {1});
    if (last.submit().status == FARANDOLE_OK)
      last.wait();
  });
  const view expected = {.generation = 1, .changes = 1, .must_sync = 1, .joined_late = 0, .removals_only = 1};
  CHECK(views[0] == expected);
  CHECK(views[1] == expected);
}

TEST_CASE("every member can wait for the report of a stall, and for its end") {
  struct report {
    farandole_status status = FARANDOLE_OK;
    std::string text;
    int over = -1;
  };
  std::vector<std::vector<report>> all(2);
  std::promise<void> told;
  const auto reported = told.get_future().share();
  std::latch both_heard(2); // a member that leaves ends the job, and with it the reports to the other
  job(2, false, "1").run([&](farandole_runtime* runtime, std::size_t rank) {
    const auto next = [&](std::int64_t timeout_ms) {
      report found;
      char text[1000] = "";
      found.status = farandole_next_stall(runtime, timeout_ms, text, sizeof text, &found.over, nullptr);
      found.text = text;
      all[rank].push_back(found);
    };
    tensor late(runtime, "late", {1});
    next(0); // reports are kept from now on
    if (rank == 0)
      late.submit();
    next(60'000);
    if (rank == 0)
      told.set_value();
    reported.wait();
    if (rank == 1)
      late.submit();
    next(60'000);
    late.wait();
    both_heard.arrive_and_wait();
    farandole_shutdown(runtime);
    next(-1);
  });
  for (const auto& reports : all) {
    REQUIRE(reports.size() == 4);
    CHECK(reports[0].status == FARANDOLE_TIMED_OUT);
    CHECK(reports[1].status == FARANDOLE_OK);
    CHECK_THAT(reports[1].text, Catch::EndsWith("Missing ranks:\n1: [late]"));
    CHECK(reports[1].over == 0);
    CHECK(reports[2].status == FARANDOLE_OK);
    CHECK_THAT(reports[2].text, Catch::StartsWith("The stall is over: it lasted "));
    CHECK(reports[2].over == 1);
    CHECK(reports[3].status == FARANDOLE_SHUT_DOWN);
  }
}
