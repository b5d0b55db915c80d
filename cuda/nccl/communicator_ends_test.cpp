#include "cuda/nccl/communicator_ends.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// What the handler was told.
struct reports {
  communicator_ends::stuck_handler handler() {
    return [this](const std::string& text, bool own_work) {
      const std::lock_guard lock(mutex);
      texts.push_back(text + (own_work ? " (own work)" : ""));
      if (texts.size() == awaited)
        complete.set_value();
    };
  }
  std::mutex mutex;
  std::vector<std::string> texts;
  std::size_t awaited = 1;
  std::promise<void> complete;
};

} // namespace

TEST_CASE("communicators that wait for each other are freed at the same time") {
  reports heard;
  const auto ends = std::make_shared<communicator_ends>(60s, heard.handler());
  std::promise<void> first_flag, second_flag;
  // Each call sets its own flag and waits for the other's, as ncclCommAbort does by way of the device.
  const auto first = [&] {
    first_flag.set_value();
    second_flag.get_future().wait();
  };
  const auto second = [&] {
    second_flag.set_value();
    first_flag.get_future().wait();
  };
  ends->run("first", first, [] { return false; });
  ends->run("second", second, [] { return false; });
  CHECK(ends->wait_until_idle(60s));
  CHECK(heard.texts.empty());
}

TEST_CASE("a call that does not return in time is reported once, with its name") {
  reports heard;
  heard.awaited = 2;
  const auto ends = std::make_shared<communicator_ends>(1ms, heard.handler());
  std::promise<void> release;
  const auto released = release.get_future().share();
  for (const std::string gpu : {"0", "1"})
    ends->run(
        "ncclCommAbort on GPU " + gpu, [released] { released.wait(); }, [gpu] { return gpu == "1"; });
  heard.complete.get_future().wait();
  CHECK_FALSE(ends->wait_until_idle(0s));
  release.set_value();
  CHECK(ends->wait_until_idle(60s));
  CHECK(heard.texts ==
        std::vector<std::string>{"ncclCommAbort on GPU 0 has not returned for 0 s",
                                 "ncclCommAbort on GPU 1 has not returned for 0 s (own work)"});
}

TEST_CASE("a call that begins after another was reported is reported, too") {
  std::promise<void> told[2];
  std::atomic<std::size_t> count = 0;
  const auto ends =
      std::make_shared<communicator_ends>(1ms, [&](const std::string&, bool) { told[count++].set_value(); });
  std::promise<void> release;
  const auto released = release.get_future().share();
  for (auto& each : told) {
    ends->run(
        "ncclCommAbort", [released] { released.wait(); }, [] { return false; });
    CHECK(each.get_future().wait_for(60s) == std::future_status::ready);
  }
  release.set_value();
  CHECK(ends->wait_until_idle(60s));
}

TEST_CASE("what a call refers to is released before it counts as ended, and the object outlives its owner") {
  reports heard;
  auto ends = std::make_shared<communicator_ends>(60s, heard.handler());
  auto used = std::make_shared<int>(1);
  const std::weak_ptr<int> kept = used;
  ends->run(
      "call", [used = std::move(used)] {}, [] { return false; });
  CHECK(ends->wait_until_idle(60s));
  CHECK(kept.expired());
  std::promise<void> ran;
  ends->run(
      "last", [&] { ran.set_value(); }, [] { return false; });
  ends.reset();
  ran.get_future().wait();
}
