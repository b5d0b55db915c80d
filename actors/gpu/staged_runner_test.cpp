#include "actors/gpu/staged_runner.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>
#include <thread>

#include "actors/gpu/staging_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

struct setup {
  device_copies device;
  staged_runner runner{opener_of(device), {.rank = 0, .chunk_bytes = 64, .operation_timeout = 10s}};
  abort_token abort;
  deadline_and_abort until{abort, std::chrono::steady_clock::time_point::max(), "operation timeout = 10 s"};
};

work sum_of(std::vector<float>& tensor) {
  work bundle;
  bundle.memory = memory_kind::device;
  auto* bytes = reinterpret_cast<std::byte*>(tensor.data());
  bundle.parts.push_back({bytes, bytes, tensor.size() * sizeof(float), {0, nullptr}});
  return bundle;
}

/// Stands for a path: doubles every element.
error doubled(work& chunk, const deadline_and_abort&) {
  for (auto& part : chunk.parts)
    for (std::size_t i = 0; part.input && i < part.input_bytes / sizeof(float); ++i) {
      float value;
      std::memcpy(&value, part.input + i * sizeof(float), sizeof value);
      value *= 2;
      std::memcpy(part.output + i * sizeof(float), &value, sizeof value);
    }
  return {};
}

} // namespace

TEST_CASE("every element of a tensor on a device passes through the host's path once") {
  setup on;
  std::vector<float> tensor(100);
  std::iota(tensor.begin(), tensor.end(), 0.0F);
  std::size_t chunks = 0;
  const auto result =
      on.runner.run(sum_of(tensor), on.until, [&](work& chunk, const deadline_and_abort& until) {
        ++chunks;
        CHECK(chunk.memory == memory_kind::host);
        return doubled(chunk, until);
      });
  CHECK_FALSE(result.error);
  CHECK(result.device.progress.ended());
  CHECK(chunks == 7);
  for (std::size_t i = 0; i < tensor.size(); ++i)
    CHECK(tensor[i] == 2.0F * static_cast<float>(i));
}

TEST_CASE("the run returns when the last copy back is given to the device, whose progress shows its end") {
  setup on;
  std::vector<float> tensor(4, 1.0F);
  const auto result =
      on.runner.run(sum_of(tensor), on.until, [&](work& chunk, const deadline_and_abort& until) {
        on.device.stop_copies_in();
        return doubled(chunk, until);
      });
  CHECK_FALSE(result.error);
  CHECK_FALSE(result.device.progress.ended());
  CHECK(tensor[0] == 1.0F);
  on.device.go_on();
  CHECK(result.device.progress.ended());
  CHECK(tensor[0] == 2.0F);
}

TEST_CASE("an abort ends the wait for a stream that never reaches the tensor, whose memory stays in use") {
  setup on;
  on.device.stop_copies_out();
  std::vector<float> tensor(100, 1.0F);
  bool ran = false;
  std::thread aborts([&] { on.abort.raise(); });
  const auto result = on.runner.run(sum_of(tensor), on.until, [&](work&, const deadline_and_abort&) {
    ran = true;
    return error{};
  });
  aborts.join();
  CHECK(result.error.kind == error_kind::disconnected);
  CHECK_FALSE(ran);
  CHECK_FALSE(result.device.progress.ended());
  on.device.go_on();
  CHECK(result.device.progress.ended());
}

TEST_CASE(
    "after an error of the path no more chunks are moved, and what the device was given counts as in use") {
  setup on;
  std::vector<float> tensor(100, 1.0F);
  int runs = 0;
  const auto result = on.runner.run(sum_of(tensor), on.until, [&](work&, const deadline_and_abort&) {
    return ++runs == 2 ? error{error_kind::disconnected, "a member was lost"} : error{};
  });
  CHECK(result.error.text == "a member was lost");
  CHECK(runs == 2);
  CHECK(tensor[40] == 1.0F);
}

TEST_CASE("a member without tensors runs as many chunks as the others, and needs no device") {
  setup on;
  work bundle;
  bundle.memory = memory_kind::device;
  bundle.parts.push_back({nullptr, nullptr, 400});
  int runs = 0;
  const auto result = on.runner.run(bundle, on.until, [&](work& chunk, const deadline_and_abort&) {
    ++runs;
    CHECK(chunk.parts.size() == 1);
    CHECK(chunk.parts[0].input == nullptr);
    return error{};
  });
  CHECK_FALSE(result.error);
  CHECK(runs == 7);
  CHECK(on.device.taken == 0);
}

TEST_CASE("the driver is asked once a second, and not in a wait that makes progress") {
  constexpr failure_questions::time_point start{};
  failure_questions questions;
  CHECK_FALSE(questions.is_time(start));
  CHECK_FALSE(questions.is_time(start + 999ms));
  CHECK(questions.is_time(start + 1s));
  CHECK_FALSE(questions.is_time(start + 1999ms));
  CHECK(questions.is_time(start + 2s));
  questions.restart();
  CHECK_FALSE(questions.is_time(start + 5s));
  CHECK(questions.is_time(start + 6s));
}

TEST_CASE("a device that cannot be opened fails the bundle with its reason") {
  staged_runner runner(
      [](std::int32_t device) -> expected<std::unique_ptr<staging>> {
        return error{error_kind::unknown, "GPU " + std::to_string(device) + " is gone"};
      },
      {});
  std::vector<float> tensor(1);
  abort_token abort;
  const auto result = runner.run(sum_of(tensor), {abort, {}, ""}, doubled);
  CHECK(result.error.text == "GPU 0 is gone");
}
