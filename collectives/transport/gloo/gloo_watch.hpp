// Gloo's waits know a time limit and nothing else: neither an abort token nor that a connection has broken in
// the middle of the very message that is waited for (Gloo tells those that have not begun). A watch is a
// thread that looks for both from beside, and ends the wait. It looks every few milliseconds and is not woken
// for it, so a wait costs no wake-up more.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace farandole {

class gloo_watch {
public:
  /// Whether the wait shall end now, and what ends it. Both are called on the watch's thread.
  struct orders {
    std::function<bool()> due;
    std::function<void()> end;
  };

  gloo_watch();
  ~gloo_watch();
  gloo_watch(const gloo_watch&) = delete;
  gloo_watch& operator=(const gloo_watch&) = delete;

  /// Watches over `wait`, which runs here. Neither of the orders is called after it has returned.
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
  const orders* orders_ = nullptr; ///< null: nobody waits
  unsigned idle_ = 0;              ///< looks with nobody waiting, in a row
  bool asleep_ = false;
  bool stop_ = false;
  std::thread thread_; ///< last: the others must be there when it starts
};

} // namespace farandole
