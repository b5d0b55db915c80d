#include "actors/submission/unnamed_calls.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

std::string call(unnamed_calls& rank, std::uint32_t set, const char* prefix, const call_epoch& current = {}) {
  auto name = rank.next_name(set, prefix, current);
  rank.accepted(set, prefix);
  return name;
}

} // namespace

TEST_CASE("calls without a name are counted for each kind and process set; refused calls are not") {
  unnamed_calls rank;
  CHECK(call(rank, 0, "allgather") == "allgather.noname.0");
  CHECK(call(rank, 0, "allgather") == "allgather.noname.1");
  CHECK(call(rank, 0, "allreduce") == "allreduce.noname.0");
  CHECK(call(rank, 3, "allgather") == "allgather.noname.0");
  CHECK(rank.next_name(0, "allgather", {}) == "allgather.noname.2");
  CHECK(call(rank, 0, "allgather") == "allgather.noname.2");
  rank.count_anew(3);
  CHECK(call(rank, 3, "allgather") == "allgather.noname.0");
}

TEST_CASE("ranks with different numbers of calls before a join agree on names after it") {
  unnamed_calls early, late;
  for (int i = 0; i < 3; ++i)
    call(late, 0, "allgather");
  for (std::uint64_t joins = 1; joins < 3; ++joins) {
    const call_epoch current{0, joins};
    for (int i = 0; i < 2; ++i) {
      const auto name = call(early, 0, "allgather", current);
      CHECK(call(late, 0, "allgather", current) == name);
      CHECK(name == "allgather.noname." + std::to_string(joins) + "." + std::to_string(i));
    }
    call(early, 0, "alltoall", current);
  }
}

TEST_CASE("ranks with different numbers of calls before a set's restart agree on names after it") {
  unnamed_calls first, second;
  call(first, 2, "broadcast");
  CHECK(call(first, 2, "broadcast", {1, 0}) == call(second, 2, "broadcast", {1, 0}));
}
