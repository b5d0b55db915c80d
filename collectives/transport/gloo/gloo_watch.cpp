#include "collectives/transport/gloo/gloo_watch.hpp"

#include <pthread.h>

#include <chrono>

#include "collectives/transport/signals_blocked.hpp"

namespace farandole {
namespace {

constexpr std::chrono::milliseconds between_looks{10};
/// After this number of consecutive checks without a waiting thread, the watch sleeps until begin() wakes it.
constexpr unsigned looks_before_sleep = 100;

} // namespace

gloo_watch::gloo_watch() {
  const signals_blocked guard;
  thread_ = std::thread([this] { look(); });
}

gloo_watch::~gloo_watch() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  called_.notify_one();
  thread_.join();
}

void gloo_watch::begin(const orders* order_list) {
  const std::lock_guard guard(mutex_);
  orders_ = order_list;
  idle_ = 0;
  if (order_list != nullptr && asleep_)
    called_.notify_one();
}

void gloo_watch::look() {
  pthread_setname_np(pthread_self(), "fd-gloo");
  std::unique_lock guard(mutex_);
  while (!stop_) {
    if (orders_ != nullptr && orders_->due()) {
      orders_->end();
      orders_ = nullptr;
    }
    if (orders_ == nullptr && ++idle_ > looks_before_sleep) {
      asleep_ = true;
      called_.wait(guard, [this] { return stop_ || orders_ != nullptr; }); // no time limit: begin() notifies
      asleep_ = false;
    } else {
      called_.wait_for(guard, between_looks);
    }
  }
}

} // namespace farandole
