#include "actors/gpu/launched_bundles.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <utility>
#include <vector>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using word = std::shared_ptr<std::atomic<std::uint32_t>>;

struct reported {
  std::uint64_t sequence;
  error_kind kind;
  friend bool operator==(const reported&, const reported&) = default;
};

struct setup {
  std::vector<reported> told;
  std::shared_ptr<device_ledger> ledger = std::make_shared<device_ledger>();
  launched_bundles bundles{[this](std::uint64_t sequence, std::uint64_t, const error& reason) {
                             told.push_back({sequence, reason.kind});
                           },
                           ledger,
                           {10s, "operation timeout = 10 s"}};
  std::uint64_t next = 0;

  /// Adds a bundle of one operation, whose device has the returned progress.
  std::pair<word, operation_state_ptr> launch(error cause = {}) {
    auto progress = std::make_shared<std::atomic<std::uint32_t>>(device_progress::none);
    auto operation = operation_state_ptr::make();
    operation->memory.device = 3;
    launched_bundle bundle{next++, 100, {operation}, device_progress(progress), false, std::move(cause)};
    bundles.add(std::move(bundle), [] {});
    return {progress, operation};
  }
  void add_of_host(error cause = {}) {
    bundles.add({next++, 100, {}, {}, false, std::move(cause)}, [] {});
  }
};

constexpr launched_bundles::time_point start{};

} // namespace

TEST_CASE("a bundle on which no device works is reported at once, unless an older one is launched") {
  setup on;
  on.add_of_host();
  CHECK(on.told == std::vector<reported>{{0, error_kind::none}});
  const auto [first, first_operation] = on.launch();
  const auto [second, second_operation] = on.launch();
  on.add_of_host({error_kind::unimplemented, "bool cannot be reduced"});
  second->store(device_progress::ended_value);
  CHECK_FALSE(on.bundles.release_ended());
  CHECK(on.told.size() == 1);
  first->store(device_progress::ended_value);
  CHECK(on.bundles.release_ended());
  CHECK(on.told == std::vector<reported>{{0, error_kind::none},
                                         {1, error_kind::none},
                                         {2, error_kind::none},
                                         {3, error_kind::unimplemented}});
  CHECK(on.bundles.empty());
  CHECK_FALSE(on.ledger->wait());
}

TEST_CASE("the deadline of a device begins with its work, and an abort is told only before that") {
  setup on;
  const error lost{error_kind::disconnected, "rank 1 was lost"};
  CHECK_FALSE(on.bundles.overdue(start, lost));
  const auto [progress, operation] = on.launch();
  CHECK_FALSE(on.bundles.overdue(start + 100s, {}));
  CHECK(on.bundles.overdue(start + 100s, lost).text == "rank 1 was lost");
  progress->store(device_progress::begun_value);
  CHECK_FALSE(on.bundles.overdue(start + 200s, lost));
  CHECK_FALSE(on.bundles.overdue(start + 209s, lost));
  CHECK(on.bundles.overdue(start + 210s, lost).text ==
        "GPU 3 did not end its work on bundle 0: operation timeout = 10 s has passed");
}

TEST_CASE("a device has one timeout more for each GiB of a bundle") {
  setup on;
  const word progress = std::make_shared<std::atomic<std::uint32_t>>(device_progress::begun_value);
  launched_bundle gathered{0, std::uint64_t{1} << 30, {}, device_progress(progress), false, {}};
  gathered.larger_side = std::uint64_t{3} << 30;
  on.bundles.add(std::move(gathered), [] {});
  CHECK_FALSE(on.bundles.overdue(start, {}));
  CHECK_FALSE(on.bundles.overdue(start + 39s, {}));
  CHECK(on.bundles.overdue(start + 40s, {}).kind == error_kind::timed_out);
}

TEST_CASE("a caller whose operation is settled waits for its device, if it waits for all devices") {
  setup on;
  auto progress = std::make_shared<std::atomic<std::uint32_t>>(device_progress::none);
  const auto waits = [&] { return on.ledger->wait([] { return true; }).kind == error_kind::aborted; };
  std::vector<bool> waited;
  on.bundles.add({0, 100, {}, device_progress(progress), true, {}}, [&] { waited.push_back(waits()); });
  progress->store(device_progress::ended_value);
  on.bundles.release_ended();
  on.bundles.add({1, 100, {}, device_progress(progress), true, {}}, [&] { waited.push_back(waits()); });
  CHECK(waited == std::vector<bool>{true, false});
}

TEST_CASE("an abort ends the wait for a device whose work needs the other members") {
  setup on;
  auto progress = std::make_shared<std::atomic<std::uint32_t>>(device_progress::begun_value);
  on.bundles.add({0, 100, {}, device_progress(progress), true, {}}, [] {});
  CHECK_FALSE(on.bundles.overdue(start, {}));
  CHECK(on.bundles.overdue(start, {error_kind::disconnected, "rank 1 was lost"}).text == "rank 1 was lost");
  progress->store(device_progress::ended_value);
  CHECK(on.bundles.release_ended());
}

TEST_CASE("bundles that are given up are reported with the reason, and nobody waits for their devices") {
  setup on;
  const auto [ended, first] = on.launch();
  const auto [working, second] = on.launch();
  const auto [failed, third] = on.launch({error_kind::mismatch, "its own"});
  ended->store(device_progress::ended_value);
  on.bundles.give_up({error_kind::timed_out, "the GPU has hung"});
  CHECK(on.told ==
        std::vector<reported>{{0, error_kind::none}, {1, error_kind::timed_out}, {2, error_kind::mismatch}});
  CHECK_FALSE(first->given_up.load());
  CHECK(second->given_up.load());
  CHECK(second->late_problem.text == "the GPU has hung");
  CHECK(on.bundles.empty());
  CHECK(on.ledger->wait().text == "the GPU has hung");
}
