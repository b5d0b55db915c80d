// The kernels of this process, counted for each device, and the places in which a device runs them.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>

namespace fake_nccl {

/// There is one object, which is never destroyed: streams may run kernels while the process ends.
class kernel_places {
public:
  static constexpr int most_devices = 16;

  static kernel_places& all();

  /// A kernel was launched: it is on a stream, and has not ended. Ended by end() or, if it never begins, by drop().
  void launch(int device);
  void drop(int device);
  /// Waits for a place. A kernel keeps its place until it ends, also while it waits for other ranks. False if the
  /// process ends.
  bool begin(int device);
  void end(int device);

  /// Waits until no kernel is on a stream of the device.
  void wait_until_idle(int device);
  /// Waits until `count` kernels run on a device, at most so long. Returns whether they do.
  bool wait_for_running(int device, unsigned count, unsigned milliseconds);

  unsigned long launched();
  unsigned running(int device);
  unsigned unfinished(int device);

  /// The process ends: nothing waits any more.
  void close();
  bool is_closed();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<unsigned, most_devices> unfinished_{}, running_{};
  unsigned long launched_ = 0;
  bool is_closed_ = false;
};

} // namespace fake_nccl
