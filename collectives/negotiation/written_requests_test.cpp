#include "collectives/negotiation/written_requests.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

request ask(std::vector<std::int64_t> shape, operation kind = operation::allreduce) {
  request asked;
  asked.signature.operation = kind;
  asked.signature.shape = std::move(shape);
  return asked;
}

request gather(std::vector<std::int64_t> shape) {
  return ask(std::move(shape), operation::allgather);
}

} // namespace

TEST_CASE("a free first dimension is recorded for each member and is no difference") {
  written_requests written;
  CHECK(written.empty());
  written.add(0, gather({2, 3}), 3);
  written.add(2, gather({4, 3}), 3);
  CHECK_FALSE(written.empty());
  CHECK_FALSE(written.differ());
  CHECK(written.first_dims() == std::vector<std::int64_t>{2, 0, 4});
  CHECK(written.signature_of(0) == gather({2, 3}).signature);
  CHECK(written.signature_of(2) == gather({4, 3}).signature);
  CHECK(written.reference() == gather({2, 3}).signature);
}

TEST_CASE("a member that differs is recorded beside the reference signature") {
  written_requests written;
  written.add(0, ask({2}), 3);
  written.add(1, ask({3}), 3);
  written.add(2, ask({2}), 3);
  CHECK(written.differ());
  CHECK(written.first_dims().empty());
  CHECK(written.signature_of(1) == ask({3}).signature);
  CHECK(written.signature_of(2) == ask({2}).signature);
}

TEST_CASE("rows that differ in other dimensions differ, and so does a scalar among rows") {
  written_requests wider;
  wider.add(0, gather({2, 3}), 2);
  wider.add(1, gather({2, 4}), 2);
  CHECK(wider.differ());
  written_requests scalar;
  scalar.add(0, gather({2}), 2);
  scalar.add(1, gather({}), 2);
  CHECK(scalar.differ());
  CHECK(scalar.first_dims() == std::vector<std::int64_t>{2, 0});
}

TEST_CASE("devices are recorded for each member, if a member uses more than one, and are no difference") {
  written_requests written;
  written.add(0, ask({2}), 3);
  CHECK(written.devices().empty());
  auto on_second = ask({2});
  on_second.device = 1;
  written.add(2, on_second, 3);
  CHECK(written.devices() == std::vector<std::uint8_t>{0, 0, 1});
  CHECK_FALSE(written.differ());
  written.clear();
  written.add(0, ask({2}), 3);
  CHECK(written.devices().empty());
}

TEST_CASE("each named group is listed once, and one member without the fast path is enough") {
  written_requests written;
  auto grouped = ask({2});
  grouped.group = 4;
  grouped.group_size = 2;
  written.add(0, grouped, 3);
  CHECK_FALSE(written.no_fast_path());
  grouped.no_fast_path = true;
  written.add(1, grouped, 3);
  written.add(2, ask({2}), 3);
  CHECK(written.no_fast_path());
  CHECK(written.groups() == std::vector<group_claim>{{4, 2}, {0, 0}});
}

TEST_CASE("clearing resets the recorded requests") {
  written_requests written;
  auto first = gather({2, 3});
  first.no_fast_path = true;
  written.add(0, first, 2);
  written.add(1, gather({2, 4}), 2);
  written.clear();
  CHECK(written.empty());
  CHECK_FALSE(written.differ());
  CHECK_FALSE(written.no_fast_path());
  CHECK(written.first_dims().empty());
  written.add(1, ask({5}), 2);
  CHECK(written.reference() == ask({5}).signature);
  CHECK(written.groups().size() == 1);
}

TEST_CASE("a member that is absent from an allreduce fits the allreduce and the allgather of others") {
  auto away = ask({2, 3});
  away.absent = true;
  written_requests written;
  written.add(1, away, 3);
  CHECK(written.all_absent());
  CHECK(written.signature_of(1) == away.signature);
  SECTION("an allreduce of its shape") {
    written.add(0, ask({2, 3}), 3);
    CHECK_FALSE(written.differ());
    CHECK_FALSE(written.has_no_rows(1));
    CHECK(written.reference() == ask({2, 3}).signature);
  }
  SECTION("an allreduce of another shape") {
    written.add(0, ask({2, 4}), 3);
    CHECK(written.differ());
    CHECK(written.signature_of(1) == away.signature);
  }
  SECTION("an allgather") {
    written.add(0, gather({5, 1}), 3);
    written.add(2, gather({4, 1}), 3);
    CHECK_FALSE(written.differ());
    CHECK(written.has_no_rows(1));
    CHECK_FALSE(written.has_no_rows(0));
    CHECK(written.first_dims() == std::vector<std::int64_t>{5, 0, 4});
    CHECK(written.reference() == gather({5, 1}).signature);
  }
  CHECK(written.any_absent());
  CHECK_FALSE(written.all_absent());
  written.clear();
  CHECK_FALSE(written.has_no_rows(1));
  written.add(0, ask({7}), 3);
  CHECK_FALSE(written.any_absent());
  CHECK_FALSE(written.differ());
  CHECK(written.reference() == ask({7}).signature);
}

TEST_CASE(
    "a member that is absent from an allgather fits the same one, and that of indices in place of values") {
  auto away = gather({2, 3});
  away.absent = true;
  auto other = gather({5, 3});
  const bool first = GENERATE(true, false);
  CAPTURE(first);
  written_requests written;
  const auto compare = [&] {
    if (first)
      written.add(1, away, 3);
    written.add(0, other, 3);
    if (!first)
      written.add(1, away, 3);
    CHECK(written.reference() == other.signature);
    CHECK(written.signature_of(1) == away.signature);
    return !written.differ();
  };
  SECTION("the same operation: it sends its rows") {
    CHECK(compare());
    CHECK_FALSE(written.has_no_rows(1));
    CHECK(written.first_dims() == std::vector<std::int64_t>{5, 2, 0});
  }
  SECTION("indices: it has no rows") {
    other.signature.dtype = dtype::int64;
    other.signature.shape = {5, 1};
    CHECK(compare());
    CHECK(written.has_no_rows(1));
    CHECK(written.first_dims() == std::vector<std::int64_t>{5, 0, 0});
  }
  SECTION("indices that it gathers, too") {
    away.signature.dtype = other.signature.dtype = dtype::int64;
    CHECK(compare());
    CHECK_FALSE(written.has_no_rows(1));
  }
  SECTION("indices in place of other indices") {
    away.signature.dtype = other.signature.dtype = dtype::int64;
    other.signature.shape = {5, 1};
    CHECK_FALSE(compare());
    CHECK_FALSE(written.has_no_rows(1));
  }
  SECTION("rows of another size") {
    other.signature.shape = {5, 4};
    CHECK_FALSE(compare());
    CHECK_FALSE(written.has_no_rows(1));
  }
  SECTION("values of another type") {
    other.signature.dtype = dtype::float64;
    CHECK_FALSE(compare());
  }
  SECTION("an allreduce") {
    other = ask({2, 3});
    CHECK_FALSE(compare());
    CHECK_FALSE(written.has_no_rows(1));
  }
}
