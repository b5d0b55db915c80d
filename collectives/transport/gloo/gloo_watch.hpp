// A thread that ends Gloo's waits early. A wait in Gloo ends only by its time limit: it checks no abort
// token, and does not notice a connection that breaks in the middle of the awaited message (only messages
// that have not begun fail then). The watch checks for both every few milliseconds and ends the wait. It is
// not woken when a wait begins, so it adds no wake-up to a wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace farandole {

class gloo_watch {
public:
  /// `due`: whether the wait must end now. `end`: ends it. Both are called on the watch's thread.
  struct orders {
    std::function<bool()> due;
    std::function<void()> end;
  };

  gloo_watch();
  ~gloo_watch();
  gloo_watch(const gloo_watch&) = delete;
  gloo_watch& operator=(const gloo_watch&) = delete;

  /// Runs `wait` on the calling thread under the watch. Neither order is called after this function has
  /// returned.
  template <class Wait>
  auto over(const orders& order_list, const Wait& wait) {
    const on_duty until_return(*this, order_list);
    return wait();
  }

private:
  class on_duty {
  public:
    on_duty(gloo_watch& watch, const orders& order_list) : watch_(watch) { watch.begin(&order_list); }
    ~on_duty() { watch_.begin(nullptr); }

  private:
    gloo_watch& watch_;
  };

  void begin(const orders* order_list);
  void look();

  std::mutex mutex_;
  std::condition_variable called_;
  const orders* orders_ = nullptr; ///< null: no thread waits
  unsigned idle_ = 0;              ///< consecutive checks without a waiting thread
  bool asleep_ = false;
  bool stop_ = false;
  std::thread thread_; ///< last: it uses the other members as soon as it starts
};

} // namespace farandole
