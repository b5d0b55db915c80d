// A lane whose tensors are in the memory of a device that the test plays.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "actors/gpu/staging_testing.hpp"
#include "actors/process_set/lane.hpp"
#include "collectives/transport/registry/data_paths.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// The lane of a member that is alone in its set.
struct lane_of_one {
  explicit lane_of_one(bool settles_at_launch, std::chrono::nanoseconds timeout = 60s) {
    lane_thread::wiring wiring;
    wiring.name = "lane";
    wiring.operation_timeout = timeout;
    wiring.timeout_citation = "operation timeout (TEST)";
    wiring.finished = [this](std::uint64_t, std::uint64_t, const error& reason) {
      problem = reason;
      finished.fetch_add(1);
    };
    wiring.staging = opener_of(device);
    wiring.settles_at_launch = settles_at_launch;
    lane = std::make_unique<lane_thread>(std::move(wiring));
    run([this] {
      set_view set;
      set.generation = 1;
      set.members.resize(1);
      set.members[0].rank = 0;
      auto opened = data_paths::open(set, {});
      if (opened)
        lane->use(std::move(*opened));
    });
  }
  ~lane_of_one() { lane->stop(); }

  /// Runs a function on the lane, behind the bundles so far.
  void run(std::function<void()> function) {
    std::promise<void> ran;
    lane->call([&] {
      function();
      ran.set_value();
    });
    ran.get_future().wait();
  }

  /// Doubles the elements of the tensor.
  operation_state_ptr give(std::vector<float>& tensor, memory_kind kind = memory_kind::device) {
    auto operation = operation_state_ptr::make();
    operation->name = "a";
    auto* bytes = reinterpret_cast<std::byte*>(tensor.data());
    auto task = std::make_unique<lane_task>();
    task->bundle.memory = kind;
    operation->memory.device = kind == memory_kind::device ? 0 : -1;
    task->bundle.sequence = given++;
    task->bundle.prescale = 2.0;
    task->bundle.parts.push_back(
        {bytes, bytes, tensor.size() * sizeof(float), {operation->memory.device, nullptr}});
    task->operations.push_back(operation);
    lane->run(std::move(task));
    return operation;
  }

  device_copies device;
  std::atomic<int> finished{0};
  error problem; ///< of the last bundle that has finished
  std::uint64_t given = 0;
  std::unique_ptr<lane_thread> lane;
};

template <class Condition>
bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition())
    if (std::chrono::steady_clock::now() > end)
      return false;
  return true;
}

} // namespace

TEST_CASE("an operation is settled when the device has its work, and released when the device has done it") {
  lane_of_one tested(true);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return operation->settled(); }));
  CHECK_FALSE(operation->problem);
  CHECK_FALSE(operation->released());
  CHECK(tested.finished == 0);
  tested.device.go_on();
  CHECK(operation->released());
  REQUIRE(comes_true([&] { return tested.finished == 1; }));
  CHECK(tensor[7] == 3.0F);
}

TEST_CASE("without settling at launch, an operation is settled when the device has done its work") {
  lane_of_one tested(false);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return tested.device.waiting() == 1; }));
  CHECK_FALSE(operation->settled());
  tested.device.go_on();
  REQUIRE(comes_true([&] { return operation->settled(); }));
  CHECK(operation->released());
  CHECK(tensor[7] == 3.0F);
}

TEST_CASE("at most eight bundles are launched before the lane waits for the device") {
  lane_of_one tested(true);
  std::vector<std::vector<float>> tensors(12, std::vector<float>(1, 1.0F));
  std::vector<operation_state_ptr> operations;
  tested.device.stop_copies_in();
  for (auto& tensor : tensors)
    operations.push_back(tested.give(tensor));
  REQUIRE(comes_true([&] { return tested.device.waiting() == 8; }));
  CHECK_FALSE(operations[8]->settled());
  tested.device.go_on();
  for (auto& operation : operations)
    CHECK(comes_true([&] { return operation->released(); }));
  REQUIRE(comes_true([&] { return tested.finished == 12; }));
}

TEST_CASE("a device that does not end its work fails the set, and those who wait for it") {
  lane_of_one tested(true, 20ms);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_within_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return operation->given_up.load(); }));
  CHECK_FALSE(operation->problem);
  CHECK(operation->late_problem.kind == error_kind::timed_out);
  CHECK(operation->late_problem.text ==
        "GPU 0 did not end its work on bundle 0: operation timeout (TEST) has passed");
  REQUIRE(comes_true([&] { return tested.finished == 1; }));
  CHECK(tested.problem.kind == error_kind::timed_out);
  CHECK_FALSE(operation->released());
  tested.device.go_on();
}

TEST_CASE("a device that does not end its work fails an operation that waits for it to be settled") {
  lane_of_one tested(false, 20ms);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_within_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return operation->settled(); }));
  CHECK(operation->problem.kind == error_kind::timed_out);
  REQUIRE(comes_true([&] { return tested.finished == 1; }));
  CHECK(tested.problem.kind == error_kind::timed_out);
  CHECK_FALSE(operation->released());
  tested.device.go_on();
}

TEST_CASE("work of the caller's stream has no deadline, and bundles of the host are reported behind it") {
  lane_of_one tested(true, 1ms);
  std::vector<float> tensor(8, 1.5F), other(1, 1.0F);
  tested.device.stop_copies_in();
  const auto operation = tested.give(tensor);
  const auto on_host = tested.give(other, memory_kind::host);
  REQUIRE(comes_true([&] { return on_host->settled(); }));
  const auto later = std::chrono::steady_clock::now() + 10ms;
  REQUIRE(comes_true([&] { return std::chrono::steady_clock::now() > later; }));
  tested.run([] {});
  CHECK_FALSE(operation->given_up.load());
  CHECK(tested.finished == 0);
  tested.device.go_on();
  REQUIRE(comes_true([&] { return tested.finished == 2; }));
  CHECK_FALSE(tested.problem);
}

TEST_CASE("an operation whose stream never comes to it ends with the reason of the abort, and its bundle is "
          "reported") {
  lane_of_one tested(true);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_copies_out();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return tested.device.waiting() == 1; }));
  tested.lane->abort({error_kind::disconnected, "rank 1 was lost"});
  REQUIRE(comes_true([&] { return operation->settled(); }));
  CHECK(operation->problem.text == "rank 1 was lost");
  REQUIRE(comes_true([&] { return tested.finished == 1; }));
  CHECK_FALSE(operation->released());
  tested.device.go_on();
  CHECK(operation->released());
}

TEST_CASE("a device that has failed is noticed, before and after its operation is settled") {
  const bool before = GENERATE(true, false);
  lane_of_one tested(true);
  std::vector<float> tensor(8, 1.5F);
  tested.device.fail({error_kind::unknown, "GPU 0 has failed"});
  if (before)
    tested.device.stop_copies_out();
  else
    tested.device.stop_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return tested.finished == 1; }));
  CHECK(tested.problem.text == "GPU 0 has failed");
  CHECK((before ? operation->problem : operation->late_problem).text == "GPU 0 has failed");
  tested.device.go_on();
}

TEST_CASE("the end of a lane ends the waits for its device, whose memory stays in use") {
  lane_of_one tested(true);
  std::vector<float> tensor(8, 1.5F);
  tested.device.stop_copies_in();
  const auto operation = tested.give(tensor);
  REQUIRE(comes_true([&] { return operation->settled(); }));
  tested.lane->abort({error_kind::disconnected, "rank 1 was lost"});
  tested.lane->stop();
  CHECK(operation->given_up.load());
  CHECK(operation->late_problem.text == "rank 1 was lost");
  CHECK_FALSE(operation->released());
  tested.device.go_on();
  CHECK(operation->released());
}

TEST_CASE("a set that leaves in order waits for its device") {
  lane_of_one tested(true);
  std::vector<float> tensor(8, 1.5F);
  const auto operation = tested.give(tensor);
  tested.run([&] { tested.lane->end_in_order(); });
  CHECK(operation->released());
  CHECK(tested.finished == 1);
  CHECK(tensor[7] == 3.0F);
}
