#include "collectives/transport/connections/first_record.hpp"

#include <catch2/catch.hpp>

#include <vector>

#include "collectives/transport/connections/tls.hpp"

using namespace farandole;

namespace {

std::size_t of(const std::vector<unsigned char>& first) {
  return first_record_bytes(std::as_bytes(std::span{first}));
}

} // namespace

TEST_CASE("of a hello the header is waited for, then as much as it announces") {
  CHECK(of({}) == 5);
  CHECK(of({22}) == 5);
  CHECK(of({22, 3, 1, 1}) == 5);
  CHECK(of({22, 3, 1, 1, 4}) == 5 + 260);
  CHECK(of({22, 3, 1, 64, 0}) == 5 + 16384);
}

TEST_CASE("what cannot be a hello is waited for no longer") {
  CHECK(of({'G'}) == 1);
  CHECK(of({22, 'G'}) == 1);
  CHECK(of({22, 3, 1, 64, 1}) == 1);
}

TEST_CASE("the hello of a session is its first record, and whole") {
  tls_session client{std::make_shared<const tls_credentials>("the job's secret"), tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE_FALSE(client.feed({}, plain, wire));
  CHECK(first_record_bytes(std::span{wire}.first(record_header_bytes)) == wire.size());
}
