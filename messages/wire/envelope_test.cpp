#include <catch2/catch.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace {

using namespace farandole;

std::vector<std::byte> bytes_of(const envelope& message) {
  auto view = message.bytes();
  return {view.begin(), view.end()};
}

envelope small_message() {
  return encode({7, 3, 12}, requests{{1, 2, 3}, {}, {}, false, departure{}, {}});
}

} // namespace

TEST_CASE("a message reads the same after it was parsed from its bytes") {
  auto sent = small_message();
  auto received = envelope::parse(sent.bytes());
  REQUIRE(received);
  CHECK(received->generation() == 7);
  CHECK(received->set() == 3);
  CHECK(received->source() == 12);
  CHECK(received->kind() == wire::Envelope::Body::REQUESTS);
  CHECK(bytes_of(*received) == bytes_of(sent));
}

TEST_CASE("a message larger than the build buffer arrives whole") {
  std::string text(std::size_t{1} << 20, 'x');
  auto sent = envelope::write([&](wire::Envelope::Builder root) {
    auto list = root.initBody().initRequests().initWithdraw(3);
    for (kj::uint i = 0; i < 3; ++i)
      list.set(i, text.c_str());
  });
  auto received = envelope::parse(sent.bytes());
  REQUIRE(received);
  auto list = received->read().getBody().getRequests().getWithdraw();
  REQUIRE(list.size() == 3);
  for (auto entry : list)
    CHECK(std::string{entry.cStr()} == text);
}

TEST_CASE("a message's size does not depend on messages built before it or around it") {
  auto fill = [](wire::Envelope::Builder root) { root.setGeneration(5); };
  const auto first = bytes_of(envelope::write(fill));
  CHECK(first.size() == 6 * sizeof(capnp::word));
  CHECK_THROWS_AS(envelope::write([](wire::Envelope::Builder root) {
                    root.initBody().initRequests().initWithdraw(1000).set(0, "half of a message");
                    throw std::runtime_error("it cannot be finished");
                  }),
                  std::runtime_error);
  std::vector<std::byte> inner;
  const auto around = envelope::write([&](wire::Envelope::Builder root) {
    fill(root);
    inner = bytes_of(envelope::write(fill));
  });
  CHECK(inner == first);
  CHECK(bytes_of(around) == first);
}

TEST_CASE("a truncated message is an error at every length") {
  auto whole = bytes_of(small_message());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    auto result = envelope::parse({whole.data(), length});
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == error_kind::invalid_argument);
  }
}

TEST_CASE("a message with bytes after its end is an error") {
  auto bytes = bytes_of(small_message());
  bytes.resize(bytes.size() + 8);
  CHECK_FALSE(envelope::parse(bytes));
}

TEST_CASE("a message over the size limit is refused before it is copied") {
  auto bytes = bytes_of(small_message());
  message_limits limits;
  limits.bytes = bytes.size() - 1;
  auto result = envelope::parse(bytes, limits);
  REQUIRE_FALSE(result);
  CHECK(result.error().text.find("at most " + std::to_string(limits.bytes)) != std::string::npos);
  limits.bytes = bytes.size();
  CHECK(envelope::parse(bytes, limits));
}

TEST_CASE("a segment table that does not match the message's size is an error") {
  auto bytes = bytes_of(small_message());
  for (std::uint32_t segments : {0U, 1U, 511U, 0x7fffffffU, 0xffffffffU}) {
    for (std::uint32_t words : {0U, 1U, 0x1fffffffU, 0xffffffffU}) {
      std::memcpy(bytes.data(), &segments, 4);
      std::memcpy(bytes.data() + 4, &words, 4);
      CHECK_FALSE(envelope::parse(bytes));
    }
  }
}

TEST_CASE("a message nested deeper than the limit is an error") {
  auto sent = encode({1, 0, 0}, requests{{}, {request{"deep", {}, 0, 0}}, {}, false, {}, {}});
  message_limits limits;
  limits.nesting = 1;
  auto received = envelope::parse(sent.bytes(), limits);
  REQUIRE(received);
  CHECK_THROWS_AS(received->read().getBody().getRequests().getFull()[0].getName().size(), kj::Exception);
}

TEST_CASE("copies of a message share its bytes") {
  auto first = small_message();
  auto second = first;
  CHECK(first.bytes().data() == second.bytes().data());
  first = {};
  CHECK_FALSE(first);
  CHECK(second.generation() == 7);
}
