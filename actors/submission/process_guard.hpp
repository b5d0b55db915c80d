// Tells the process in which an object was made from a forked child of it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace farandole {

/// Owns a page that the kernel zeroes in a forked child (MADV_WIPEONFORK). So a call can check, at the cost of one
/// load, that it runs in the process that owns the runtime. Without such a page is_local() compares process ids.
class process_guard {
public:
  process_guard() : page_(static_cast<volatile int*>(map())) {
    if (page_)
      *page_ = 1;
  }
  process_guard(const process_guard&) = delete;
  process_guard& operator=(const process_guard&) = delete;
  ~process_guard() {
    if (page_)
      munmap(const_cast<int*>(page_), size());
  }
  bool is_local() const { return page_ ? *page_ == 1 : process_ == getpid(); }

private:
  static std::size_t size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static void* map() {
    auto* page = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
      return nullptr;
    if (madvise(page, size(), MADV_WIPEONFORK) == 0)
      return page;
    munmap(page, size());
    return nullptr;
  }
  volatile int* page_;
  pid_t process_ = getpid();
};

} // namespace farandole
