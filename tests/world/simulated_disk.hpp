// The disk of the rendezvous of a simulated job: files in memory that outlive the process that writes them.
// The disk can be full; the writing process can end during a write, and so can the machine, which then loses
// unsynced data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "elastic/disk.hpp"
#include "tests/world/dice.hpp"

namespace farandole::testing {

class simulated_disk {
public:
  explicit simulated_disk(std::uint64_t seed);

  /// The view of one process.
  std::shared_ptr<disk> of(std::int32_t process);
  /// Releases the locks of the process, and drops its later writes.
  void end_process(std::int32_t process);
  /// Ends the machine: only the synced data of each file is sure to remain.
  void end_machine();
  /// Makes all writes fail, or work again.
  void fill(bool full) { full_ = full; }
  bool full() const { return full_; }
  /// Whether a write has failed because the disk is full …
  bool refused() const { return refused_; }
  /// … and no write has succeeded since.
  bool behind() const { return behind_; }
  /// The data that remains after any end of the machine.
  std::vector<std::byte> synced_bytes(const std::string& path) const;
  /// Calls `action` in the middle of the `count`-th call from now on; it must end the process. An empty
  /// `action` cancels this.
  void at_call(std::uint64_t count, std::function<void()> action);
  void copy(const std::string& from, const std::string& to);

private:
  struct content {
    std::vector<std::byte> bytes;
    std::size_t synced = 0;
  };
  class view;
  class file;
  class lock;

  /// Counts a call of a running process; true if the process ends in this call.
  bool ends_now();
  void end();
  void lose(content& content);

  dice draw_;
  std::map<std::string, std::shared_ptr<content>> names_;
  std::map<std::string, std::shared_ptr<content>> kept_; ///< the files on the disk, by name
  std::map<std::string, std::int32_t> locks_;            ///< the process that holds each lock
  std::map<std::int32_t, std::shared_ptr<bool>> alive_;
  bool full_ = false;
  bool refused_ = false;
  bool behind_ = false;
  std::uint64_t calls_left_ = 0;
  std::function<void()> at_call_;
};

} // namespace farandole::testing
