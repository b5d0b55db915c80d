#include "actors/event_loop/framing.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

namespace farandole {
namespace {

using bytes = std::vector<std::byte>;

bytes message(std::size_t words, unsigned seed) {
  bytes result(words * 8);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::byte>(i * 7 + seed);
  return result;
}

std::vector<bytes> taken(frame_reader& reader) {
  std::vector<bytes> result;
  while (auto next = reader.next())
    result.emplace_back(next->begin(), next->end());
  return result;
}

TEST_CASE("messages are read whole and in order from a stream in pieces of any size") {
  std::vector<bytes> sent;
  bytes stream;
  for (unsigned i = 0; i < 40; ++i) {
    sent.push_back(message(1 + i * i % 97, i));
    append_frame(stream, sent.back());
  }
  std::mt19937 random{5};
  for (std::size_t limit : {std::size_t{1}, std::size_t{7}, std::size_t{100}, stream.size()}) {
    frame_reader reader{1 << 20};
    std::vector<bytes> got;
    for (std::size_t at = 0; at < stream.size();) {
      auto n = std::min(stream.size() - at, limit == 1 ? 1 : 1 + random() % limit);
      REQUIRE(!reader.push(std::span{stream}.subspan(at, n)));
      for (auto& buffer : taken(reader))
        got.push_back(std::move(buffer));
      at += n;
    }
    CHECK(got == sent);
    CHECK(reader.held_bytes() == 0);
  }
}

TEST_CASE("a truncated message is never returned") {
  bytes stream;
  append_frame(stream, message(4, 1));
  for (std::size_t n = 0; n < stream.size(); ++n) {
    frame_reader reader{1 << 20};
    REQUIRE(!reader.push(std::span{stream}.first(n)));
    CHECK_FALSE(reader.next());
    CHECK(reader.held_bytes() == n);
  }
}

TEST_CASE("an oversized message is refused by its header, before its bytes arrive") {
  bytes stream;
  append_frame(stream, message(9, 1));
  frame_reader reader{64};
  auto problem = reader.push(std::span{stream}.first(frame_header_bytes));
  CHECK(problem.kind == error_kind::invalid_argument);
  CHECK_THAT(problem.text, Catch::Contains("72 bytes") && Catch::Contains("64"));
  CHECK(reader.held_bytes() == 0);
  CHECK(reader.push(stream) == problem);
  CHECK_FALSE(reader.next());
}

TEST_CASE("a message of exactly the size limit is accepted") {
  bytes stream;
  append_frame(stream, message(8, 1));
  frame_reader reader{64};
  REQUIRE(!reader.push(stream));
  CHECK(reader.next().has_value());
}

TEST_CASE("an empty message, or a header whose zero field is not zero, is refused") {
  SECTION("an empty message") {
    frame_reader reader{1 << 20};
    CHECK(reader.push(bytes(8)));
  }
  SECTION("text") {
    std::string text = "GET / HTTP/1.1\r\n\r\n";
    frame_reader reader{std::size_t{1} << 40};
    CHECK(reader.push(std::as_bytes(std::span{text})));
  }
  SECTION("after a valid message, which is lost with it") {
    bytes stream;
    append_frame(stream, message(1, 1));
    stream.insert(stream.end(), 8, std::byte{0xff});
    frame_reader reader{1 << 20};
    CHECK(reader.push(stream));
    CHECK_FALSE(reader.next());
  }
}

TEST_CASE("the bytes that a frame reader holds are bounded by the size limit of a message") {
  constexpr std::size_t limit = 1 << 16;
  frame_reader reader{limit};
  bytes stream;
  for (unsigned i = 0; i < 200; ++i)
    append_frame(stream, message(100 + i * 31 % 1000, i));
  for (std::size_t at = 0; at < stream.size(); at += 4096) {
    REQUIRE(!reader.push(std::span{stream}.subspan(at, std::min<std::size_t>(4096, stream.size() - at))));
    taken(reader);
    REQUIRE(reader.held_bytes() <= limit + frame_header_bytes);
  }
}

} // namespace
} // namespace farandole
