#include "actors/launch/output_writer.hpp"

#include <catch2/catch.hpp>

#include "actors/event_loop/pipe_testing.hpp"
#include "tests/temporary_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <future>
#include <memory>

using namespace farandole;
using namespace farandole::testing;
using farandole::testing::pipe_ends;

namespace {

std::string all_of(int fd) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t count = 0; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

} // namespace

TEST_CASE("queued output is written in order before the writer ends", "[output]") {
  pipe_ends pipe;
  {
    output_writer writer;
    for (int number = 0; number < 100; ++number)
      writer.write(pipe.write.get(), std::to_string(number) + "\n");
  }
  pipe.write.close();
  std::string wanted;
  for (int number = 0; number < 100; ++number)
    wanted += std::to_string(number) + "\n";
  CHECK(all_of(pipe.read.get()) == wanted);
}

TEST_CASE("a reader that has gone is reported once for each target", "[output]") {
  pipe_ends pipe, other;
  int reports = 0;
  {
    output_writer writer;
    writer.when_unread([&] { ++reports; });
    pipe.read.close();
    for (int number = 0; number < 3; ++number)
      writer.write(pipe.write.get(), "lost");
    writer.write(other.write.get(), "read");
  } // its thread has ended
  CHECK(reports == 1);
  other.write.close();
  CHECK(all_of(other.read.get()) == "read");
}

TEST_CASE("the queue fills while its reader does not read, and has room once the reader reads", "[output]") {
  pipe_ends pipe;
  auto writer = std::make_unique<output_writer>();
  const std::string piece(1 << 16, 'x');
  std::size_t written = 0;
  while (!writer->full()) { // the pipe itself takes only a little
    writer->write(pipe.write.get(), piece);
    written += piece.size();
  }
  std::promise<void> room;
  writer->when_there_is_room([&] { room.set_value(); });
  auto reading = std::async(std::launch::async, [&] { return all_of(pipe.read.get()).size(); });
  CHECK(room.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready);
  CHECK_FALSE(writer->full());
  writer.reset();
  pipe.write.close();
  CHECK(reading.get() == written);
}

TEST_CASE("when_there_is_room calls back at once if there is room", "[output]") {
  output_writer writer;
  bool told = false;
  writer.when_there_is_room([&] { told = true; });
  CHECK(told);
}

TEST_CASE("a file is created with its folders, and the error names a file that cannot be created",
          "[output]") {
  const temporary_folder made;
  const auto& folder = made.path();
  {
    output_writer writer;
    const auto file = writer.open(folder + "/a/b/stdout");
    REQUIRE(file);
    writer.write(*file, "text\n");
    const auto wrong = writer.open(folder + "/a/b/stdout/x");
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().text.find(folder + "/a/b/stdout/x") != std::string::npos);
  }
  const descriptor file{::open((folder + "/a/b/stdout").c_str(), O_RDONLY)};
  CHECK(all_of(file.get()) == "text\n");
}

TEST_CASE("a file is closed after its last text, and its number may be that of another file", "[output]") {
  const temporary_folder made;
  pipe_ends pipe;
  output_writer writer;
  const auto catch_up = [&] {
    char letter = 0;
    writer.write(pipe.write.get(), "x");
    REQUIRE(::read(pipe.read.get(), &letter, 1) == 1);
  };
  const auto full = writer.open("/dev/full");
  REQUIRE(full);
  writer.write(*full, "lost");
  writer.close(*full);
  catch_up();
  REQUIRE(::fcntl(*full, F_GETFD) == -1);
  const auto copy = writer.open(made.file("copy"));
  REQUIRE(copy);
  CHECK(*copy == *full);
  writer.write(*copy, "kept");
  writer.close(*copy);
  catch_up();
  CHECK(::fcntl(*copy, F_GETFD) == -1);
  const descriptor file{::open(made.file("copy").c_str(), O_RDONLY)};
  CHECK(all_of(file.get()) == "kept");
}
