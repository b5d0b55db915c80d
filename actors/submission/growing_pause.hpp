// How a thread waits for a word without being woken, as devices wake no thread: a short wait is noticed at once, and a
// long one costs no core.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace farandole {

class growing_pause {
public:
  /// Yields at first, and later sleeps for 10 to 200 µs.
  void wait() {
    if (rounds_ < yields) {
      ++rounds_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(length_);
    length_ = std::min(2 * length_, longest);
  }

private:
  static constexpr int yields = 100;
  static constexpr std::chrono::microseconds longest{200};
  int rounds_ = 0;
  std::chrono::microseconds length_{10};
};

} // namespace farandole
