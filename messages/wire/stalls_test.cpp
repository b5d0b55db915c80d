#include "messages/wire/stalls.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/membership.hpp"
#include "messages/wire/travelled_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

constexpr address somewhere{2, 3, 1};

} // namespace

TEST_CASE("messages about stalls arrive as they were sent") {
  const stall_notice notice{stall_source::fast_path, {{"allreduce.a", 61s, {0, 4}}, {"", 60s, {}}}, 9};
  const auto heard = decode_stall_notice(travelled(encode(somewhere, notice)));
  REQUIRE(heard);
  CHECK(*heard == notice);
  const stall_report report{"rank 1 is missing", true};
  const auto told = decode_stall_report(travelled(encode(somewhere, report)));
  REQUIRE(told);
  CHECK(*told == report);
}

TEST_CASE("a notice of a stall names ranks of the job, ascending, and not more tensors than it counts") {
  const auto of = [](std::vector<std::int32_t> missing, std::uint32_t count) {
    return decode_stall_notice(
        encode(somewhere, stall_notice{stall_source::leader, {{"a", 60s, std::move(missing)}}, count}));
  };
  CHECK(of({0, 1}, 1));
  CHECK_FALSE(of({1, 0}, 1));
  CHECK_FALSE(of({1, 1}, 1));
  CHECK_FALSE(of({-1}, 1));
  CHECK_FALSE(of({member_limit}, 1));
  CHECK_FALSE(of({0}, 0));
}
