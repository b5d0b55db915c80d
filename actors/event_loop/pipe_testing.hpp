// A pipe for tests.
#pragma once

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "messages/values/descriptor.hpp"

namespace farandole::testing {

struct pipe_ends {
  descriptor read, write;
  pipe_ends() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    read = descriptor{fds[0]};
    write = descriptor{fds[1]};
  }
  void put(const std::string& text) const {
    REQUIRE(::write(write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
};

} // namespace farandole::testing
