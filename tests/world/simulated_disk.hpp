// The disk under the rendezvous of a simulated job: files in memory, that outlive who writes them. It can be
// full; who writes can end in the midst of it, and so can the machine, which loses what was not synced.
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

  /// What one process sees of it.
  std::shared_ptr<disk> of(std::int32_t process);
  /// Its locks are free, and what it still writes reaches nothing.
  void end_process(std::int32_t process);
  /// Of each file only what was synced is sure to be left.
  void end_machine();
  /// Everything that is written fails, or works again.
  void fill(bool full) { full_ = full; }
  bool full() const { return full_; }
  /// Something was not written because it is full …
  bool refused() const { return refused_; }
  /// … and nothing has been since.
  bool behind() const { return behind_; }
  /// What outlasts the machine's end whatever happens.
  std::vector<std::byte> sure(const std::string& path) const;
  /// In the `count`-th call from now on, half done, this is called; it is to end the process. None: no more.
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

  /// One more call of a process that runs; true: it ends in this one.
  bool ends_now();
  void end();
  void lose(content& content);

  dice draw_;
  std::map<std::string, std::shared_ptr<content>> names_;
  std::map<std::string, std::shared_ptr<content>> kept_; ///< what the disk has under these names
  std::map<std::string, std::int32_t> locks_;            ///< by whom they are held
  std::map<std::int32_t, std::shared_ptr<bool>> alive_;
  bool full_ = false;
  bool refused_ = false;
  bool behind_ = false;
  std::uint64_t calls_left_ = 0;
  std::function<void()> at_call_;
};

} // namespace farandole::testing
