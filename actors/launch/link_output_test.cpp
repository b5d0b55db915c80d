#include "actors/launch/link_output.hpp"

#include <catch2/catch.hpp>

#include "actors/launch/hands.hpp"

using namespace farandole;

namespace {

/// A sink whose messages the test decodes.
struct sent_output {
  std::vector<process_output> messages;
  link_output sink;

  explicit sent_output(std::size_t window_bytes)
      : sink(7, window_bytes, [this](const envelope& message) {
          auto decoded = decode_process_output(message);
          REQUIRE(decoded);
          messages.push_back(*decoded);
        }) {}
};

} // namespace

TEST_CASE("output for the launcher is sent in messages of bounded size, with the end of each stream") {
  sent_output output(4 << 20);
  output.sink.write(1, "hello\n");
  output.sink.write(0, std::string(most_stream_bytes + 1, 'x'));
  output.sink.end(1);
  REQUIRE(output.messages.size() == 4);
  CHECK(output.messages[0] == process_output{7, 1, "hello\n", false});
  CHECK(output.messages[1].bytes.size() == most_stream_bytes);
  CHECK(output.messages[2] == process_output{7, 0, "x", false});
  CHECK(output.messages[3] == process_output{7, 1, "", true});
}

TEST_CASE("a stream is full until the launcher has consumed enough of its window") {
  sent_output output(100);
  output.sink.write(0, std::string(99, 'x'));
  CHECK_FALSE(output.sink.full(0));
  output.sink.write(0, "xx");
  CHECK(output.sink.full(0));
  CHECK_FALSE(output.sink.full(1));
  int calls = 0;
  output.sink.when_there_is_room(0, [&] { ++calls; });
  CHECK(calls == 0);
  output.sink.consumed(1, 50);
  CHECK(calls == 0);
  output.sink.consumed(0, 1);
  CHECK(output.sink.full(0));
  output.sink.consumed(0, 1);
  CHECK(calls == 1);
  output.sink.consumed(0, 1000);
  CHECK(calls == 1);
  output.sink.when_there_is_room(0, [&] { ++calls; });
  CHECK(calls == 2);
}

TEST_CASE("released output is dropped, and makes room for a process that waits for credit") {
  sent_output output(100);
  output.sink.write(0, std::string(100, 'x'));
  int calls = 0;
  output.sink.when_there_is_room(0, [&] { ++calls; });
  output.sink.release();
  CHECK(calls == 1);
  output.sink.write(0, std::string(1000, 'x'));
  CHECK_FALSE(output.sink.full(0));
  output.sink.end(0);
  CHECK(output.messages.size() == 1);
  output.sink.release();
  CHECK(calls == 1);
}

TEST_CASE("the windows of all streams together are at most 8 MiB, and none is too small or too large") {
  CHECK(output_window_bytes(1) == 1 << 20);
  CHECK(output_window_bytes(64) * 64 * output_streams <= 4 << 20);
  CHECK(output_window_bytes(10000) == 16 << 10);
  CHECK(output_window_bytes(0) == 1 << 20);
}
