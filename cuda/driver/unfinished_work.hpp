// What copies in progress use: pinned memory, events, words. The device may touch it until the copy has ended, so it is
// kept here until then. Nothing waits: the list is looked through when it is used.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "messages/values/device.hpp"

namespace farandole {

/// Thread-safe.
class unfinished_work {
public:
  struct entry {
    device_progress progress;
    std::vector<std::shared_ptr<const void>> uses;
  };

  unfinished_work() = default;
  unfinished_work(const unfinished_work&) = delete;
  unfinished_work& operator=(const unfinished_work&) = delete;
  /// Entries that have not ended are never released: a device that does not respond now may write them later.
  ~unfinished_work();

  void add(entry work);
  /// Releases what ended copies used.
  void release_ended();
  /// Takes over what the other list keeps.
  void take_over(unfinished_work& other);

private:
  std::mutex mutex_;
  std::vector<entry> entries_;
};

} // namespace farandole
