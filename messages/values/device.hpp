// Memory of a device (a GPU), and the work that a device was given, as values. Holding them needs no driver; `cuda/`
// makes them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace farandole {

/// Where the bytes of a tensor are.
enum class memory_kind : std::uint8_t { host = 0, device = 1 };
inline constexpr std::uint32_t memory_kind_count = 2;

/// How to find out when the bytes of a tensor in device memory are ready.
enum class device_readiness : std::uint8_t {
  stream = 0,   ///< once the stream has done all work that it was given so far
  complete = 1, ///< they are ready already
  context =
      2 ///< once all streams of the device's primary context have done the work that they were given so far
};
inline constexpr std::uint32_t device_readiness_count = 3;

/// Where a tensor is. The numbers of devices are those of the driver in this process.
struct tensor_memory {
  std::int32_t device = -1; ///< -1: host memory
  void* stream = nullptr;   ///< a CUstream of the device; null: its default stream
  device_readiness readiness = device_readiness::stream;
};

/// A point in the work of a device, reached when all work before it is done. The last reference returns it to its
/// pool, from any thread. Only `cuda/` knows what is in it.
class device_point {
public:
  virtual ~device_point() = default;
};
using device_point_ptr = std::shared_ptr<const device_point>;

/// How far a device has come with some work, in a word of host memory that the device writes. Asking needs no call of
/// the driver, so it cannot hang. Thread-safe.
class device_progress {
public:
  /// The values of the word, in their order.
  static constexpr std::uint32_t none = 0, begun_value = 1, ended_value = 2;

  /// Of no work: it has begun and ended.
  device_progress() = default;
  /// `word` is kept, with the memory that it is in, as long as the device may write it.
  explicit device_progress(std::shared_ptr<const std::atomic<std::uint32_t>> word)
      : words_{std::move(word)} {}
  /// Of all the work of two. Each is the progress of one piece of work, or of none.
  static device_progress of_both(const device_progress& first, const device_progress& second) {
    device_progress both;
    both.words_ = {first.words_[0], second.words_[0]};
    return both;
  }

  bool begun() const { return all_reached(begun_value); }
  /// The device no longer touches the memory that the work was given.
  bool ended() const { return all_reached(ended_value); }

private:
  bool all_reached(std::uint32_t value) const {
    for (const auto& word : words_)
      if (word && word->load(std::memory_order_acquire) < value)
        return false;
    return true;
  }

  std::array<std::shared_ptr<const std::atomic<std::uint32_t>>, 2> words_;
};

/// Work that a device was given.
struct device_work {
  device_point_ptr done = {}; ///< null: the work was done before it was asked for
  device_progress progress = {};
};

} // namespace farandole
