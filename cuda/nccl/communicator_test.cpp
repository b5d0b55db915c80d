// Communicators, and launches by them, over the stand-ins for the driver and for NCCL. Ranks are threads, each with a
// device.
#include "cuda/nccl/communicator.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver/devices.hpp"
#include "cuda/driver/stand_in_testing.hpp"
#include "cuda/fake/stand_in_nccl_testing.hpp"
#include "cuda/kernels/kernel_image.hpp"

using namespace farandole;
using namespace std::chrono_literals;

extern const char stand_in_nccl_library[]; // CMake defines it

namespace {

/// Some builds have no nvcc, and no kernels.
bool has_kernels() {
  if (built_kernels().bytes.empty())
    WARN("not tested: " << built_kernels().origin);
  return !built_kernels().bytes.empty();
}

std::shared_ptr<nccl_library> opened_library() {
  nccl(); // loads both stand-ins
  auto library = nccl_library::open({stand_in_nccl_library}, 60s, [](const std::string&, bool) {});
  REQUIRE(library);
  return *library;
}

error step() {
  std::this_thread::yield();
  return {};
}

/// A member with a device, a launcher and communicators. Used by one thread.
struct device_rank {
  device_rank(std::shared_ptr<nccl_library> uses, int rank)
      : library(std::move(uses)), number(rank), gpu(rank), all(*devices::open(stand_in_driver::path())),
        launcher(*device_launcher::open(all, rank)) {}

  std::unique_ptr<communicator> begin(const communicator_id& id, int ranks) {
    auto begun = library->begin({all, number, ranks, number}, id);
    return begun ? std::move(*begun) : nullptr;
  }
  std::unique_ptr<communicator> connected(const communicator_id& id, int ranks = 2) {
    auto begun = begin(id, ranks);
    return begun && !begun->connect(step) ? std::move(begun) : nullptr;
  }
  std::byte* place(const std::vector<float>& elements) {
    auto* memory = gpu.device_memory(elements.size() * sizeof(float));
    std::vector<std::byte> bytes(elements.size() * sizeof(float));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    stand_in_driver::write(memory, bytes);
    return memory;
  }
  /// Doubles two elements, sums them over the ranks in place, and halves the sums.
  static device_plan plan_at(std::byte* memory) {
    device_plan plan;
    plan.before.scale = 2.0;
    plan.before.pieces = {{memory, memory, 2}};
    plan.calls = {{device_call_kind::allreduce, memory, memory, 2}};
    plan.after.scale = 0.5;
    plan.after.pieces = {{memory, memory, 2}};
    return plan;
  }
  expected<device_work> launch(communicator* via, std::byte* memory) {
    return launcher->launch(plan_at(memory), {}, via, step);
  }

  std::shared_ptr<nccl_library> library;
  int number;
  stand_in_driver gpu;
  std::shared_ptr<devices> all;
  std::shared_ptr<device_launcher> launcher;
};

/// Runs `body` for each rank, in a thread.
void in_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(rank); });
  for (auto& thread : threads)
    thread.join();
}

/// Sets a flag when the scope ends.
class at_end {
public:
  explicit at_end(std::atomic<bool>& flag) : flag_(flag) {}
  at_end(const at_end&) = delete;
  at_end& operator=(const at_end&) = delete;
  ~at_end() { flag_ = true; }

private:
  std::atomic<bool>& flag_;
};

bool ends(const device_progress& progress) {
  return comes_true([&] { return progress.ended(); });
}

} // namespace

TEST_CASE("a launch packs, reduces and unpacks in the order of one stream") {
  if (!has_kernels())
    return;
  const auto library = opened_library();
  const auto id = *library->create_id();
  CHECK(library->version() == 22809);
  std::vector<std::vector<float>> results(2);
  std::atomic<int> ended{0};
  in_threads(2, [&](int rank) {
    device_rank own(library, rank);
    const auto via = own.connected(id);
    auto* memory = own.place({1.0F + static_cast<float>(rank), 10.0F});
    const auto work = via ? own.launch(via.get(), memory) : error{error_kind::unknown, "not connected"};
    if (!work || !ends(work->progress))
      return;
    ended.fetch_add(1);
    const auto bytes = stand_in_driver::read(memory, 2 * sizeof(float));
    results[rank].resize(2);
    std::memcpy(results[rank].data(), bytes.data(), bytes.size());
  });
  CHECK(ended == 2);
  CHECK(results == std::vector<std::vector<float>>{{3.0F, 20.0F}, {3.0F, 20.0F}});
  CHECK(library->wait_until_freed(60s));
  CHECK(nccl().communicators() == 0);
}

TEST_CASE("two communicators of one device that have lost a rank end, though each is freed only when the "
          "device is idle") {
  if (!has_kernels())
    return;
  const auto library = opened_library();
  const auto first_id = *library->create_id(), second_id = *library->create_id();
  const auto misuses = nccl().misuses();
  std::atomic<bool> hung{false}, ended{false}, is_over{false};
  in_threads(2, [&](int rank) {
    device_rank own(library, rank);
    auto first = own.connected(first_id), second = own.connected(second_id);
    if (rank == 1) { // it is connected, and never launches anything
      comes_true([&] { return is_over.load(); });
      return;
    }
    const at_end over(is_over);
    if (!first || !second)
      return;
    const auto other_launcher = *device_launcher::open(own.all, rank); // another stream
    auto* memory = own.place({1.0F, 1.0F});
    const auto one = own.launch(first.get(), memory);
    const auto two =
        other_launcher->launch(device_rank::plan_at(own.place({1.0F, 1.0F})), {}, second.get(), step);
    if (!one || !two)
      return;
    hung = nccl().wait_for_kernels(rank, 2, patience_ms) == 1 && !one->progress.ended() &&
           !two->progress.ended();
    first->abort();
    second->abort();
    first->abort(); // idempotent
    ended = ends(one->progress) && ends(two->progress);
  });
  CHECK(hung);
  CHECK(ended);
  CHECK(library->wait_until_freed(60s));
  CHECK(nccl().communicators() == 0);
  CHECK(nccl().misuses() == misuses);
}

TEST_CASE("a communicator without revoke is freed to end its kernels") {
  if (!has_kernels())
    return;
  const variable old("FARANDOLE_FAKE_NCCL", "22403");
  const auto library = opened_library();
  const auto id = *library->create_id();
  std::atomic<bool> ended{false}, is_over{false};
  error failure, of_later_launch;
  in_threads(2, [&](int rank) {
    device_rank own(library, rank);
    auto via = own.connected(id);
    if (rank == 1) {
      comes_true([&] { return is_over.load(); });
      return;
    }
    const at_end over(is_over);
    const auto work = via ? own.launch(via.get(), own.place({1.0F, 1.0F})) : error{error_kind::unknown, ""};
    if (!work)
      return;
    via->abort();
    failure = via->failure();
    if (const auto later = own.launch(via.get(), own.place({1.0F, 1.0F})); !later)
      of_later_launch = later.error();
    ended = ends(work->progress) && ends(own.launcher->progress());
  });
  CHECK(ended);
  CHECK(failure.kind == error_kind::disconnected);
  CHECK(of_later_launch.kind == error_kind::disconnected);
  CHECK(library->wait_until_freed(60s));
}

TEST_CASE("a wait for ranks that do not come is ended by its step, and the communicator can be dropped") {
  if (!has_kernels())
    return;
  const auto library = opened_library();
  const auto id = *library->create_id();
  const auto misuses = nccl().misuses();
  device_rank own(library, 0);
  auto via = own.begin(id, 2);
  REQUIRE(via);
  int steps = 0;
  const auto problem = via->connect([&] {
    return ++steps < 5 ? error{} : error{error_kind::timed_out, "time has passed"};
  });
  CHECK(problem.text == "time has passed");
  via->abort();
  via.reset();
  CHECK(library->wait_until_freed(60s));
  CHECK(nccl().misuses() == misuses);
}

TEST_CASE("failures of NCCL are reported with the call and the library's account of it") {
  if (!has_kernels())
    return;
  const auto library = opened_library();
  device_rank own(library, 0);
  {
    const variable fails("FARANDOLE_FAKE_NCCL_FAILS", "ncclGetUniqueId,ncclCommInitRankConfig");
    const auto id = library->create_id();
    REQUIRE(!id);
    CHECK_THAT(id.error().text, Catch::StartsWith("ncclGetUniqueId failed: ") &&
                                    Catch::Contains("as FARANDOLE_FAKE_NCCL_FAILS says"));
    const auto begun = library->begin({own.all, 0, 1, 0}, communicator_id{});
    REQUIRE(!begun);
    CHECK_THAT(begun.error().text, Catch::StartsWith("ncclCommInitRankConfig failed: "));
  }
  auto via = own.connected(*library->create_id(), 1);
  REQUIRE(via);
  CHECK_FALSE(via->failure());
  {
    const variable fails("FARANDOLE_FAKE_NCCL_FAILS", "launch");
    const auto work = own.launch(via.get(), own.place({1.0F, 1.0F}));
    REQUIRE(!work);
    CHECK_THAT(work.error().text, Catch::StartsWith("ncclGroupEnd failed: "));
  }
  CHECK(via->failure());
  CHECK(ends(own.launcher->progress()));
  // A thread frees the communicator. It must not read the environment while the next test changes that, or go on while
  // the process ends.
  via.reset();
  CHECK(library->wait_until_freed(60s));
}

TEST_CASE("a launcher takes device memory once, when its buffer is used") {
  if (!has_kernels())
    return;
  opened_library();
  device_rank own(opened_library(), 0);
  const auto before = stand_in_driver::calls("cuMemAlloc");
  CHECK(*own.launcher->buffer() == *own.launcher->buffer());
  CHECK(stand_in_driver::calls("cuMemAlloc") == before + 1);
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", "cuMemAlloc");
  const auto other = (*device_launcher::open(own.all, 0))->buffer();
  REQUIRE(!other);
  CHECK(other.error().kind == error_kind::overloaded);
  CHECK_THAT(other.error().text, Catch::StartsWith("GPU 0: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"));
}
