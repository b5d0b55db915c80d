#include "collectives/paths/hierarchical/hierarchy.hpp"

#include <catch2/catch.hpp>

#include "collectives/operation.hpp"
#include "collectives/paths/path_table.hpp"

using namespace farandole;

TEST_CASE("hosts are ordered by their first rank, and a member knows its place and its column") {
  const std::vector<std::string> hosts = {"b", "a", "b", "a", "c", "c", "b"};
  const auto made = hierarchy::of(hosts, 3);
  CHECK(made.hosts == std::vector<std::vector<std::int32_t>>{{0, 2, 6}, {1, 3}, {4, 5}});
  CHECK(made.host == 1);
  CHECK(made.place == 1);
  CHECK(made.columns == 2);
  CHECK(made.column() == std::vector<std::int32_t>{2, 3, 5});
  CHECK(hierarchy::of(hosts, 0).column() == std::vector<std::int32_t>{0, 1, 4});
  CHECK_FALSE(hierarchy::of(hosts, 6).in_column());
}

TEST_CASE("ranks and hosts fit together for halving and doubling where hosts are made of bits of the rank") {
  const auto splits = [](const std::vector<std::string>& hosts) {
    return hierarchy::of(hosts, 0).splits_by_bits();
  };
  CHECK(splits({"a", "a", "b", "b"}));
  CHECK(splits({"a", "b", "a", "b"}));
  CHECK(splits({"a", "a", "b", "b", "a", "a", "b", "b"}));
  CHECK(splits({"a", "a", "b", "b", "c", "c", "d", "d"}));
  CHECK(splits({"a", "a"}));
  CHECK_FALSE(splits({"a", "b", "b", "a"}));
  CHECK_FALSE(splits({"a", "a", "a", "b"}));
  CHECK_FALSE(splits({"a", "a", "b"}));
  CHECK_FALSE(splits({"a", "b", "c", "c"}));
}

TEST_CASE("shares cover a stream once, in order, and only the last piece is not full") {
  const std::size_t bytes = GENERATE(0u, 1u, 4096u, 4097u, 100'000u, 1'048'576u, 5'000'001u);
  const std::size_t columns = GENERATE(1u, 2u, 3u, 8u);
  CAPTURE(bytes, columns);
  const auto plan = share_plan::of(bytes, columns, std::size_t{512} << 10, 4096);
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < plan.pieces; ++piece) {
    CHECK(plan.piece(piece, bytes).from == at);
    CHECK(plan.piece(piece, bytes).bytes > 0);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto share = plan.share(piece, column, bytes);
      CHECK(share.from == at);
      CHECK(share.bytes <= plan.share_bytes);
      if (piece + 1 < plan.pieces)
        CHECK(share.bytes == plan.share_bytes);
      at += share.bytes;
    }
    CHECK(plan.share(piece, columns, bytes).bytes == 0);
  }
  CHECK(at == bytes);
}

namespace {

path_kind route_of(operation what, const set_facts& set, const path_wishes& wishes) {
  const auto routes = routes_for(set, wishes);
  REQUIRE(routes);
  return (*routes)[static_cast<std::size_t>(what)];
}

} // namespace

TEST_CASE("the table has a row for each path, in the order of their kinds") {
  for (const auto& row : path_table())
    CHECK(&row_of(row.kind) == &row);
}

TEST_CASE("the set decides between solo, local and tcp") {
  CHECK(route_of(operation::allreduce, {1, 1}, {}) == path_kind::solo);
  CHECK(route_of(operation::alltoall, {1, 1}, {"ucx", true, true}) == path_kind::solo);
  CHECK(route_of(operation::allreduce, {4, 1}, {"auto", true, true}) == path_kind::local);
  CHECK(route_of(operation::allreduce, {4, 1}, {"ucx", true, true}) == path_kind::ucx);
  CHECK(route_of(operation::allreduce, {4, 1}, {"tcp", true, true}) == path_kind::tcp);
  CHECK(route_of(operation::allreduce, {4, 2}, {}) == path_kind::tcp);
}

TEST_CASE(
    "the hierarchical settings choose that path for their operation, where a host has several members") {
  const path_wishes allreduce{"auto", true, false}, allgather{"auto", false, true};
  CHECK(route_of(operation::allreduce, {4, 2}, allreduce) == path_kind::hierarchical);
  CHECK(route_of(operation::allgather, {4, 2}, allreduce) == path_kind::tcp);
  CHECK(route_of(operation::allgather, {3, 2}, allgather) == path_kind::hierarchical);
  CHECK(route_of(operation::allreduce, {4, 2}, allgather) == path_kind::tcp);
  CHECK(route_of(operation::broadcast, {4, 2}, {"auto", true, true}) == path_kind::tcp);
  CHECK(route_of(operation::allreduce, {3, 3}, allreduce) == path_kind::tcp);
  CHECK(route_of(operation::allreduce, {4, 2}, {"ucx", true, true}) == path_kind::ucx);
}

TEST_CASE("a torus is levels of equal hosts") {
  path_wishes torus;
  torus.torus_allreduce = true;
  CHECK(route_of(operation::allreduce, {4, 2, true}, torus) == path_kind::hierarchical);
  CHECK(route_of(operation::allreduce, {3, 2, false}, torus) == path_kind::tcp);
  CHECK(route_of(operation::allgather, {4, 2, true}, torus) == path_kind::tcp);
  CHECK(route_of(operation::allreduce, {4, 1, true}, torus) == path_kind::local);
}

TEST_CASE("a forced path that cannot serve the set is refused with the reason") {
  const auto local = routes_for({4, 2}, {"local", false, false});
  REQUIRE_FALSE(local);
  CHECK(local.error().kind == error_kind::unimplemented);
  CHECK_THAT(local.error().text, Catch::Contains("FARANDOLE_CPU_PATH=local needs all members on one host"));
  const auto pigeons = routes_for({4, 2}, {"pigeons", false, false});
  REQUIRE_FALSE(pigeons);
  CHECK_THAT(pigeons.error().text, Catch::Contains("is not in this build"));
}

TEST_CASE("the report marks what each path moves and says why it does not move the rest") {
  const auto report = path_report();
  for (const auto& row : operation_table)
    CHECK((report.find("    " + std::string(row.name) + " ") != std::string::npos) ==
          (row.id != operation::join));
  CHECK_THAT(report, Catch::Contains("broadcast not by hierarchical: "));
}
