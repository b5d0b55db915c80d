// Devices and an NCCL for tests of classes that use them: the test plays both, and sees their calls. Each member is a thread
// of the test.
#pragma once

#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/gpu/nccl_runner.hpp"

namespace farandole::testing {

/// The statements that the members of one set exchange.
struct played_set {
  explicit played_set(std::size_t members)
      : statements(members), barrier(static_cast<std::ptrdiff_t>(members)) {}

  /// An allgather between the threads.
  nccl_runner::host_run host_run_of(std::size_t rank) {
    return [this, rank](work& question, const deadline_and_abort&) -> error {
      const auto& part = question.parts.at(0);
      statements[rank].assign(part.input, part.input + part.input_bytes);
      barrier.arrive_and_wait();
      for (std::size_t other = 0; other < statements.size(); ++other)
        std::memcpy(part.output + other * part.input_bytes, statements[other].data(), part.input_bytes);
      barrier.arrive_and_wait();
      if (rank == 0)
        questions.fetch_add(1);
      return {};
    };
  }

  std::vector<std::vector<std::byte>> statements;
  std::barrier<> barrier;
  std::atomic<int> questions{0};
};

/// The GPU of one member, its faults, and the calls so far.
struct played_gpu {
  char gpu = 0;
  std::string no_launcher = {}, no_library = {}, no_connection = {};
  int ids = 0, connected = 0, aborted = 0, alive = 0;
  std::vector<device_plan> launched = {};
  error launch_problem = {};
  error communicator_failure = {};
};

class played_communicator final : public communicator {
public:
  explicit played_communicator(played_gpu& on) : on_(on) { ++on_.alive; }
  ~played_communicator() override { --on_.alive; }
  error connect(const wait_step&) override {
    ++on_.connected;
    return on_.no_connection.empty() ? error{} : error{error_kind::unknown, on_.no_connection};
  }
  error failure() const override { return on_.communicator_failure; }
  void abort() override { ++on_.aborted; }

private:
  played_gpu& on_;
};

class played_launcher final : public device_launcher {
public:
  explicit played_launcher(played_gpu& on) : on_(on) {}
  expected<std::byte*> buffer() override { return buffer_.data(); }
  expected<device_work> launch(const device_plan& plan, std::span<const device_point_ptr>, communicator*,
                               const wait_step&) override {
    if (on_.launch_problem)
      return on_.launch_problem;
    on_.launched.push_back(plan);
    return device_work{};
  }
  device_progress progress() const override { return {}; }
  error failure() const override { return {}; }
  std::int32_t device() const override { return 0; }
  gpu_uuid gpu() const override {
    gpu_uuid uuid{};
    uuid.fill(on_.gpu);
    return uuid;
  }
  const std::shared_ptr<devices>& owner() const override { return owner_; }

private:
  played_gpu& on_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(64);
  std::shared_ptr<devices> owner_;
};

class played_library final : public nccl_library {
public:
  explicit played_library(played_gpu& on) : on_(on) {}
  int version() const override { return 22809; }
  std::string path() const override { return "libnccl.so.2"; }
  expected<communicator_id> create_id() override {
    ++on_.ids;
    return communicator_id{};
  }
  expected<std::unique_ptr<communicator>> begin(const membership&, const communicator_id&) override {
    return std::unique_ptr<communicator>(std::make_unique<played_communicator>(on_));
  }
  bool wait_until_freed(std::chrono::nanoseconds) override { return true; }

private:
  played_gpu& on_;
};

inline nccl_runner::options options_of(played_gpu& on, std::size_t rank, std::size_t members) {
  nccl_runner::options options;
  options.rank = rank;
  for (std::size_t i = 0; i < members; ++i)
    options.members.push_back({"rank " + std::to_string(i), "a"});
  options.launcher = [&on](std::int32_t) -> expected<std::shared_ptr<device_launcher>> {
    if (!on.no_launcher.empty())
      return error{error_kind::unimplemented, on.no_launcher};
    return std::shared_ptr<device_launcher>(std::make_shared<played_launcher>(on));
  };
  options.library = [&on]() -> expected<std::shared_ptr<nccl_library>> {
    if (!on.no_library.empty())
      return error{error_kind::unimplemented, on.no_library};
    return std::shared_ptr<nccl_library>(std::make_shared<played_library>(on));
  };
  return options;
}

} // namespace farandole::testing
