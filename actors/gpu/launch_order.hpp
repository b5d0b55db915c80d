// The order in which the lanes of this process launch work that waits for other members on a device. Two process sets
// that share two devices would otherwise wait for each other in a circle: each device runs the kernel of another set
// first. The leader states the order with each bundle (launch_clock.hpp).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class launch_order;

/// The turn of one bundle. Used by one thread at a time.
class launch_turn {
public:
  /// No turn: it need not be waited for.
  launch_turn() = default;
  launch_turn(launch_turn&& other) noexcept { *this = std::move(other); }
  launch_turn& operator=(launch_turn&& other) noexcept {
    std::swap(order_, other.order_);
    std::swap(set_, other.set_);
    std::swap(after_, other.after_);
    return *this;
  }
  ~launch_turn() { end(); }

  /// Waits until the bundles before this one were launched. `interrupted` is called every 10 ms, and ends the wait by
  /// returning an error.
  error wait(const std::function<error()>& interrupted) const;
  /// The bundle was launched, or never will be. Idempotent.
  void end();

private:
  friend class launch_order;
  launch_turn(std::shared_ptr<launch_order> order, std::uint32_t set, std::vector<set_launches> after)
      : order_(std::move(order)), set_(set), after_(std::move(after)) {}

  std::shared_ptr<launch_order> order_;
  std::uint32_t set_ = 0;
  std::vector<set_launches> after_;
};

/// Of one runtime. Thread-safe.
class launch_order : public std::enable_shared_from_this<launch_order> {
public:
  /// The set of this number has a lane here from now on, until close(). Bundles wait only for sets that have one.
  void open(std::uint32_t set);
  void close(std::uint32_t set);

  /// For the next ordered bundle of an open set. Bundles of one set end their turns in any order.
  launch_turn take(std::uint32_t set, std::vector<set_launches> after) {
    return {shared_from_this(), set, std::move(after)};
  }

private:
  friend class launch_turn;
  bool has_launched(const std::vector<set_launches>& bundles) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, std::uint64_t> launched_; ///< number of turns that have ended, by open set
};

} // namespace farandole
