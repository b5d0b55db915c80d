// A device for tests of what moves its tensors: its memory is that of the host, and the test decides when it copies.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "actors/gpu/staged_runner.hpp"
#include "cuda/staged/staging.hpp"

namespace farandole::testing {

/// A device of which the test decides when it copies. Thread-safe.
class device_copies {
public:
  /// From now on, copies in this direction wait for go_on().
  void stop_copies_out() { stop(to_host_); }
  void stop_copies_in() { stop(to_device_); }
  /// The same, but copies that wait have begun.
  void stop_within_copies_in() {
    stop(to_device_);
    to_device_.begins = true;
  }
  void go_on() {
    std::lock_guard lock(guard_);
    for (auto* side : {&to_host_, &to_device_}) {
      side->stopped = false;
      run(*side);
    }
  }
  /// Number of copies that wait.
  std::size_t waiting() {
    std::lock_guard lock(guard_);
    return to_host_.queued.size() + to_device_.queued.size();
  }

  device_work copy(bool to_host, std::span<const staged_piece> pieces, pinned_memory_ptr memory) {
    std::lock_guard lock(guard_);
    auto& side = to_host ? to_host_ : to_device_;
    auto word = std::make_shared<std::atomic<std::uint32_t>>(side.begins ? device_progress::begun_value
                                                                         : device_progress::none);
    side.queued.push_back({{pieces.begin(), pieces.end()}, std::move(memory), word, to_host});
    side.last = device_progress(word);
    run(side);
    return {nullptr, side.last};
  }

  /// From now on the device says that it has failed.
  void fail(error reason) {
    std::lock_guard lock(guard_);
    failure_ = std::move(reason);
  }
  error failure() {
    std::lock_guard lock(guard_);
    return failure_;
  }

  device_progress progress() {
    std::lock_guard lock(guard_);
    return device_progress::of_both(to_host_.last, to_device_.last);
  }

  std::atomic<int> taken{0}; ///< number of pinned blocks

private:
  struct piece_of_work {
    std::vector<staged_piece> pieces;
    pinned_memory_ptr memory;
    std::shared_ptr<std::atomic<std::uint32_t>> word;
    bool to_host;
  };
  struct direction {
    std::deque<piece_of_work> queued;
    bool stopped = false;
    bool begins = false; ///< before it stops
    device_progress last;
  };

  void stop(direction& side) {
    std::lock_guard lock(guard_);
    side.stopped = true;
  }
  static void run(direction& side) {
    for (; !side.stopped && !side.queued.empty(); side.queued.pop_front()) {
      const auto& [pieces, memory, word, to_host] = side.queued.front();
      for (const auto& piece : pieces)
        std::memcpy(to_host ? piece.host : piece.device, to_host ? piece.device : piece.host, piece.bytes);
      word->store(device_progress::ended_value);
    }
  }

  std::mutex guard_;
  error failure_;
  direction to_host_, to_device_;
};

struct heap_memory final : pinned_memory {
  explicit heap_memory(std::size_t bytes) : block(bytes) {}
  std::span<std::byte> bytes() const override { return block; }
  mutable std::vector<std::byte> block;
};

struct fake_staging final : staging {
  explicit fake_staging(device_copies& device) : device_(device) {}
  expected<pinned_memory_ptr> take(std::size_t bytes) override {
    ++device_.taken;
    return pinned_memory_ptr(std::make_shared<heap_memory>(bytes));
  }
  expected<device_work> copy_out(std::span<const staged_piece> pieces, std::span<const device_point_ptr>,
                                 pinned_memory_ptr host) override {
    return device_.copy(true, pieces, std::move(host));
  }
  expected<device_work> copy_in(std::span<const staged_piece> pieces, std::span<const device_point_ptr>,
                                pinned_memory_ptr host) override {
    return device_.copy(false, pieces, std::move(host));
  }
  device_progress progress() const override { return device_.progress(); }
  error failure() const override { return device_.failure(); }
  std::string name() const override { return "GPU 0"; }

private:
  device_copies& device_;
};

inline staged_runner::opener opener_of(device_copies& device) {
  return [&device](std::int32_t) -> expected<std::unique_ptr<staging>> {
    return std::unique_ptr<staging>(std::make_unique<fake_staging>(device));
  };
}

} // namespace farandole::testing
