#include "actors/gpu/nccl_runner.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/gpu/nccl_testing.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

work bundle_on(std::int32_t device, std::vector<std::uint8_t> devices = {}) {
  static std::byte memory[64];
  work bundle;
  bundle.memory = memory_kind::device;
  bundle.devices = std::move(devices);
  part only;
  only.input_bytes = 8;
  only.location.device = device;
  if (device >= 0) {
    only.input = memory;
    only.output = memory + 32;
  }
  bundle.parts.push_back(only);
  return bundle;
}

/// The members of a set, each with its runner.
struct together {
  explicit together(std::size_t members) : set(members), gpus(members) {
    for (std::size_t rank = 0; rank < members; ++rank)
      gpus[rank].gpu = static_cast<char>(rank);
  }

  /// To be called once `gpus` are as the test wants them.
  void start(gpu_choice choice = gpu_choice::automatic) {
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
      auto options = options_of(gpus[rank], rank, gpus.size());
      options.choices.fill(choice);
      if (rank == 0)
        options.remark = [this](const std::string& text, bool) { remarks.push_back(text); };
      runners.push_back(std::make_unique<nccl_runner>(std::move(options)));
    }
  }

  /// What each member answers to its bundle: "nccl", "staged" or an error.
  std::vector<std::string> ask(const std::function<work(std::size_t rank)>& bundle_of) {
    std::vector<std::string> answers(runners.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < runners.size(); ++rank)
      threads.emplace_back([&, rank] {
        const deadline_and_abort deadline{token, std::chrono::steady_clock::now() + patience, "timeout"};
        const auto taken = runners[rank]->takes(bundle_of(rank), deadline, set.host_run_of(rank));
        answers[rank] = !taken ? taken.error().text : *taken ? "nccl" : "staged";
      });
    for (auto& thread : threads)
      thread.join();
    return answers;
  }
  std::vector<std::string> ask() {
    return ask([](std::size_t) { return bundle_on(0); });
  }

  played_set set;
  std::vector<played_gpu> gpus;
  std::vector<std::unique_ptr<nccl_runner>> runners;
  std::vector<std::string> remarks; ///< of the first member
  abort_token token;
};

using answers = std::vector<std::string>;

} // namespace

TEST_CASE("the first bundle connects the members, and later ones ask nobody") {
  together on(3);
  on.start();
  CHECK(on.ask() == answers{"nccl", "nccl", "nccl"});
  CHECK(on.set.questions == 4);
  CHECK(on.ask() == answers{"nccl", "nccl", "nccl"});
  CHECK(on.set.questions == 4);
  CHECK(on.gpus[1].connected == 1);
  CHECK(on.remarks == answers{"tensors in GPU memory move by NCCL"});

  const deadline_and_abort deadline{on.token, std::chrono::steady_clock::now() + patience, "timeout"};
  const auto result = on.runners[1]->run(bundle_on(0), deadline);
  CHECK_FALSE(result.error);
  CHECK(result.waits_for_members);
  CHECK(on.gpus[1].launched.size() == 1);
  on.runners.clear();
  CHECK(on.gpus[1].alive == 0);
}

TEST_CASE("a member without NCCL keeps all members from it, for good") {
  together on(3);
  on.gpus[2].no_library = "there is no NCCL";
  on.start();
  CHECK(on.ask() == answers{"staged", "staged", "staged"});
  CHECK(on.set.questions == 1);
  CHECK_FALSE(on.runners[0]->may_take(bundle_on(0)));
  CHECK(on.ask() == answers{"staged", "staged", "staged"});
  CHECK(on.set.questions == 1);
  CHECK(on.remarks == answers{"tensors in GPU memory move through host memory: rank 2: there is no NCCL"});
}

TEST_CASE("a member that cannot connect keeps all members from NCCL, and no communicator is left") {
  together on(2);
  on.gpus[1].no_connection = "unhandled system error";
  on.start();
  CHECK(on.ask() == answers{"staged", "staged"});
  CHECK(on.set.questions == 4);
  CHECK(on.gpus[0].alive == 0);
  CHECK(on.gpus[1].alive == 0);
  CHECK(on.remarks.back() ==
        "tensors in GPU memory move through host memory: rank 1: unhandled system error");
}

TEST_CASE("with a member that has joined and never had a GPU tensor, NCCL is asked for again later") {
  together on(2);
  on.start();
  CHECK(on.ask([](std::size_t rank) { return bundle_on(rank == 0 ? 0 : -1); }) ==
        answers{"staged", "staged"});
  CHECK(on.remarks.empty());
  CHECK(on.gpus[0].ids == 0); // NCCL listens for each id
  CHECK(on.ask() == answers{"nccl", "nccl"});
  CHECK(on.gpus[0].ids == 1);
  // It has a communicator now, and takes part without a tensor.
  CHECK(on.ask([](std::size_t rank) { return bundle_on(rank == 0 ? 0 : -1); }) == answers{"nccl", "nccl"});
}

TEST_CASE("tensors on other devices have a communicator of their own") {
  together on(2);
  on.start();
  CHECK(on.ask() == answers{"nccl", "nccl"});
  CHECK(on.ask([](std::size_t) { return bundle_on(1, {0, 1}); }) == answers{"nccl", "nccl"});
  CHECK(on.gpus[0].alive == 2);
}

TEST_CASE("FARANDOLE_GPU_PATH=nccl fails where NCCL cannot be used, and staged never asks for it") {
  together forced(2);
  forced.gpus[0].no_launcher = "this build has no kernels";
  forced.start(gpu_choice::nccl);
  const std::string text =
      "FARANDOLE_GPU_PATH=nccl, and NCCL cannot be used: rank 0: this build has no kernels. "
      "Unset FARANDOLE_GPU_PATH, and the tensors move through host memory";
  CHECK(forced.ask() == answers{text, text});
  CHECK(forced.ask() == answers{text, text});
  // What NCCL never moves is staged all the same.
  CHECK(forced.ask([](std::size_t) {
    auto bundle = bundle_on(0);
    bundle.dtype = dtype::int16;
    return bundle;
  }) == answers{"staged", "staged"});

  together staged(2);
  staged.start(gpu_choice::staged);
  CHECK(staged.ask() == answers{"staged", "staged"});
  CHECK(staged.set.questions == 0);
}

TEST_CASE("a set of one needs no NCCL") {
  together on(1);
  on.gpus[0].no_library = "there is no NCCL";
  on.start();
  CHECK(on.ask() == answers{"nccl"});
  CHECK(on.set.questions == 0);
  CHECK(on.runners[0]->name() == "gpu");
  const deadline_and_abort deadline{on.token, std::chrono::steady_clock::now() + patience, "timeout"};
  const auto result = on.runners[0]->run(bundle_on(0), deadline);
  CHECK_FALSE(result.error);
  CHECK_FALSE(result.waits_for_members);
}

TEST_CASE("after an abort nothing is launched, and failures are those of the communicator") {
  together on(2);
  on.start();
  on.ask();
  CHECK_FALSE(on.runners[0]->failure());
  on.gpus[0].communicator_failure = {error_kind::unknown, "NCCL failed: remote process exited"};
  CHECK(on.runners[0]->failure().text == "NCCL failed: remote process exited");
  on.runners[0]->abort();
  CHECK(on.gpus[0].aborted == 1);
  const deadline_and_abort deadline{on.token, std::chrono::steady_clock::now() + patience, "timeout"};
  CHECK(on.runners[0]->run(bundle_on(0), deadline).error.kind == error_kind::disconnected);
  CHECK(on.gpus[0].launched.empty());
}
