#include "collectives/transport/connections/first_record.hpp"

#include <catch2/catch.hpp>

#include <vector>

#include "collectives/transport/connections/tls.hpp"

using namespace farandole;

namespace {

std::size_t bytes_to_await(const std::vector<unsigned char>& first) {
  return first_record_bytes(std::as_bytes(std::span{first}));
}

} // namespace

TEST_CASE("first_record_bytes returns the header size, then the size that the header announces") {
  CHECK(bytes_to_await({}) == 5);
  CHECK(bytes_to_await({22}) == 5);
  CHECK(bytes_to_await({22, 3, 1, 1}) == 5);
  CHECK(bytes_to_await({22, 3, 1, 1, 4}) == 5 + 260);
  CHECK(bytes_to_await({22, 3, 1, 64, 0}) == 5 + 16384);
}

TEST_CASE("first_record_bytes returns 1 for bytes that cannot start a hello") {
  CHECK(bytes_to_await({'G'}) == 1);
  CHECK(bytes_to_await({22, 'G'}) == 1);
  CHECK(bytes_to_await({22, 3, 1, 64, 1}) == 1);
}

TEST_CASE("the first record of a TLS session contains its whole hello") {
  tls_session client{std::make_shared<const tls_credentials>("the job's secret"), tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE_FALSE(client.feed({}, plain, wire));
  CHECK(first_record_bytes(std::span{wire}.first(record_header_bytes)) == wire.size());
}
