#include "actors/launch/input_reader.hpp"

#include <catch2/catch.hpp>

#include "actors/event_loop/pipe_testing.hpp"
#include "tests/patience.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

using namespace farandole;
using farandole::testing::patience;
using farandole::testing::pipe_ends;

namespace {

/// What the reader has delivered.
class received {
public:
  void add(const std::string& bytes) {
    std::lock_guard lock(mutex_);
    text_ += bytes;
    ended_ = bytes.empty();
    changed_.notify_all();
  }
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return text_ == text; });
  }
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return ended_; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool ended_ = false;
};

} // namespace

TEST_CASE("input is read as far as it is allowed, then its end is delivered", "[input]") {
  pipe_ends pipe;
  received all;
  input_reader reader(pipe.read.get());
  reader.start([&](const std::string& bytes) { all.add(bytes); });
  pipe.put("hello world");
  reader.allow(5);
  CHECK(all.wait_for("hello"));
  pipe.write.close();
  reader.allow(100);
  CHECK(all.wait_for("hello world"));
  CHECK(all.wait_for_end());
}

TEST_CASE("no byte is read without permission, so that another program can read it", "[input]") {
  pipe_ends pipe;
  {
    received all;
    input_reader reader(pipe.read.get());
    reader.start([&](const std::string& bytes) { all.add(bytes); });
    pipe.put("abc");
    reader.allow(1);
    CHECK(all.wait_for("a"));
    reader.end();
    reader.allow(100); // too late
  }
  char rest[8];
  CHECK(::read(pipe.read.get(), rest, sizeof rest) == 2);
}

TEST_CASE("a reader that waits for input can be stopped", "[input]") {
  pipe_ends pipe;
  input_reader reader(pipe.read.get());
  reader.start([](const std::string&) {});
  reader.allow(100);
  reader.stop();
  SUCCEED("stop() has returned");
}

TEST_CASE("a descriptor that is not open is an input that has ended", "[input]") {
  received all;
  input_reader reader(1 << 20);
  reader.start([&](const std::string& bytes) { all.add(bytes); });
  reader.allow(1);
  CHECK(all.wait_for_end());
}
