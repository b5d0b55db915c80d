// A disk that is soon full, for the files of one test.
#pragma once

#include <catch2/catch.hpp>

#include <sched.h>
#include <sys/mount.h>

#include <functional>
#include <future>
#include <string>

namespace farandole::testing {

/// Calls the function on a thread to which the folder is an empty disk of this size. Threads that it starts see the disk,
/// too. It is not called if this process may not mount one.
inline void on_disk_of(std::size_t bytes, const std::string& folder, const std::function<void()>& test) {
  std::async(std::launch::async, [&] {
    if (::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("none", folder.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0)
      test();
    else
      WARN("this process may not mount a disk");
  }).get();
}

} // namespace farandole::testing
