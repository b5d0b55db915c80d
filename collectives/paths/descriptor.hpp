// A file descriptor with one owner: whoever holds it closes it. All of ours are close-on-exec.
#pragma once

#include <unistd.h>

#include <utility>

namespace farandole {

class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { close(); }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  void close() {
    if (number_ >= 0)
      ::close(std::exchange(number_, -1));
  }

private:
  int number_ = -1;
};

} // namespace farandole
