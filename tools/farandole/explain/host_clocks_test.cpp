#include "tools/farandole/explain/host_clocks.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t here = 0, there = 1;

/// A transfer that this host's ranks begin and end at these times of its own clock.
observed_transfer seen(std::size_t host, std::uint64_t bundle, nanoseconds begin, nanoseconds end) {
  return {host, {1, 0, 1, bundle}, begin, end};
}

/// A record of a rank that moves a bundle from `begin` to `end`, by the steady clock of its host. The system clock is ahead
/// of it by made_record::start.
event_record record_on(const std::string& host, std::int32_t rank, nanoseconds begin, nanoseconds end) {
  auto record = made_record(rank, 3).record();
  record.member.host = host;
  record.names = {"", "tcp"};
  record.threads[2].events = {
      {static_cast<std::uint64_t>(begin.count()), 1, 0, event_kind::path_begin, 0, 5, 16},
      {static_cast<std::uint64_t>(end.count()), 1, 0, event_kind::path_end, 0, 5, 0}};
  return record;
}

host_clocks clocks_of(const std::vector<event_record>& records) {
  std::vector<const event_record*> members;
  for (const auto& record : records)
    members.push_back(&record);
  return host_clocks(members, {});
}

/// Time of the first event of the lane on the common axis, since the start of the reference host's record.
nanoseconds begin_on_axis(const host_clocks& clocks, const event_record& record) {
  return clocks.scale_of(record).system(record.threads[2].events.front().ticks) - made_record::start;
}

} // namespace

TEST_CASE("one transfer bounds the offset of a clock by its length", "[clocks]") {
  // The clock of the other host is ahead by 1 s. Both begin at 10 ms and end at 12 ms.
  const auto clocks = offsets_by_transfers({seen(here, 1, 10ms, 12ms), seen(there, 1, 1010ms, 1012ms)}, 2);
  CHECK(clocks[here].offset == 0ns);
  CHECK(clocks[here].error == nanoseconds(0));
  CHECK(clocks[there].offset == 1s);
  CHECK(clocks[there].error == nanoseconds(2ms));
  CHECK(clocks[there].contradiction == 0ns);
}

TEST_CASE("of several transfers and ranks the tightest bounds count", "[clocks]") {
  const auto clocks = offsets_by_transfers({seen(here, 1, 10ms, 30ms), seen(there, 1, 1010ms, 1030ms),
                                            // Rank 2 begins last; the transfer ends soon after.
                                            seen(here, 2, 40ms, 52ms), seen(there, 2, 1041ms, 1052ms),
                                            seen(there, 2, 1050ms, 1052ms), seen(here, 3, 60ms, 61ms)},
                                           2);
  // offset >= 1050 - 52, offset <= 1030 - 10 = 1020, and <= 1052 - 40 = 1012.
  CHECK(clocks[there].offset == 1005ms);
  CHECK(clocks[there].error == nanoseconds(7ms));
}

TEST_CASE("the offset of a host that shares no transfer with the reference is not known", "[clocks]") {
  const auto clocks = offsets_by_transfers({seen(here, 1, 10ms, 12ms), seen(there, 2, 10ms, 12ms)}, 2);
  CHECK_FALSE(clocks[there].error);
  CHECK(clocks[there].offset == 0ns);
}

TEST_CASE("a clock that was set between two transfers contradicts itself", "[clocks]") {
  const auto clocks = offsets_by_transfers({seen(here, 1, 10ms, 12ms), seen(there, 1, 1010ms, 1012ms),
                                            seen(here, 2, 20ms, 22ms), seen(there, 2, 5020ms, 5022ms)},
                                           2);
  // offset >= 5020 - 22 and <= 1012 - 10.
  CHECK(clocks[there].contradiction == 3996ms);
}

TEST_CASE("the true offset lies within the stated error for random transfers", "[clocks]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](int limit) {
      return nanoseconds(std::uniform_int_distribution<int>(0, limit)(random));
    };
    const auto offset = up_to(2'000'000'000) - 1s;
    std::vector<observed_transfer> transfers;
    nanoseconds time{0};
    for (std::uint64_t bundle = 0; bundle < 20; ++bundle) {
      time += up_to(5'000'000);
      std::vector<nanoseconds> begins;
      for (int rank = 0; rank < 4; ++rank)
        begins.push_back(time + up_to(300'000));
      const auto complete = *std::max_element(begins.begin(), begins.end());
      for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto shift = rank % 2 == there ? offset : 0ns;
        transfers.push_back(seen(rank % 2, bundle, begins[rank] + shift, complete + up_to(50'000) + shift));
      }
    }
    const auto measured = offsets_by_transfers(transfers, 2)[there];
    REQUIRE(measured.error);
    CHECK(measured.contradiction == 0ns);
    CHECK(std::chrono::abs(measured.offset - offset) <= *measured.error);
    CHECK(*measured.error <= nanoseconds(350'000));
  }
}

TEST_CASE("measured clocks along the tree of relays add up, with their bounds and drifts", "[clocks]") {
  // True time t is 10 ms at the first event. The steady clock of beta shows t + 5 s, that of gamma t + 12 s.
  std::vector<event_record> records = {record_on("alpha", 0, 10ms, 12ms),
                                       record_on("beta", 1, 5s + 10ms, 5s + 12ms),
                                       record_on("gamma", 2, 12s + 10ms, 12s + 12ms)};
  records[1].clock = recorded_clock{0, -5s, 30us, 5s, 0};
  records[2].clock = recorded_clock{1, -7s, 40us, 12s, 0}; // rank 2 is below rank 1
  const auto clocks = clocks_of(records);
  CHECK(clocks.reference() == "alpha");
  for (const auto& record : records)
    CHECK(begin_on_axis(clocks, record) == 10ms);
  CHECK(clocks.offsets().at("beta").measured);
  CHECK(clocks.offsets().at("beta").error == nanoseconds(30us));
  CHECK(clocks.offsets().at("gamma").error == nanoseconds(70us));
  CHECK(clocks.offsets().at("gamma").contradiction == 0ns);
  CHECK(clocks.worst_error() == 70us);
  CHECK(clocks.comparable("alpha", "gamma"));

  SECTION("the offset changes with the drift since it was measured") {
    records[1].clock = recorded_clock{0, -5s + 1us, 30us, 5s - 90ms, -10'000}; // 1 us in 100 ms
    CHECK(begin_on_axis(clocks_of(records), records[1]) == 10ms);
  }
  SECTION("of the ranks of a host, the one with the smallest bound counts") {
    records.push_back(record_on("beta", 3, 5s + 10ms, 5s + 12ms));
    records[3].clock = recorded_clock{0, -5s + 2us, 3us, 5s, 0};
    const auto better = clocks_of(records);
    CHECK(better.worst_error() == 43us);
    CHECK(begin_on_axis(better, records[1]) == 10ms + 2us);
  }
  SECTION("a host whose chain is broken falls back to the transfers") {
    records[1].clock.reset();
    const auto some = clocks_of(records);
    CHECK_FALSE(some.offsets().at("gamma").measured);
    CHECK_FALSE(some.comparable("alpha", "gamma"));
    CHECK(some.comparable("gamma", "gamma"));
    CHECK(some.offsets().at("gamma").error == nanoseconds(2ms));
    CHECK(begin_on_axis(some, records[2]) == 10ms);
  }
  SECTION("records that name each other as the member above are not measured") {
    records[1].clock->peer = 2;
    CHECK_FALSE(clocks_of(records).offsets().at("beta").measured);
  }
  SECTION("a measurement that no clock can show is ignored") {
    records[1].clock->offset = nanoseconds::max();
    CHECK_FALSE(clocks_of(records).offsets().at("beta").measured);
  }
}

TEST_CASE("transfers that contradict a measured clock are reported, with the distance from its bound",
          "[clocks]") {
  std::vector<event_record> records = {record_on("alpha", 0, 10ms, 12ms),
                                       record_on("beta", 1, 5s + 10ms, 5s + 12ms)};
  records[1].clock = recorded_clock{0, -5s + 3ms, 100us, 5s, 0};
  // The transfer allows an offset between -2 and 2 ms, the measurement one of 3 ms, with an error of 0.1 ms.
  const auto clocks = clocks_of(records);
  CHECK(clocks.offsets().at("beta").contradiction == 900us);
  CHECK(clocks.offsets().at("beta").error == nanoseconds(100us));
  records[1].clock->bound = 1100us;
  CHECK(clocks_of(records).offsets().at("beta").contradiction == 0ns);
}

TEST_CASE("processes that were no members have no place among the hosts", "[clocks]") {
  const auto absent = made_record(-1, 0).record();
  const auto clocks = clocks_of({absent});
  CHECK(clocks.reference().empty());
  CHECK(clocks.worst_error() == 0ns);
  CHECK(clocks.scale_of(absent).system(5'000) == made_record::start + 5us);
}
