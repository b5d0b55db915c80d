#include "collectives/transport/path_routes.hpp"

#include <catch2/catch.hpp>

#include "collectives/operation.hpp"
#include "collectives/transport/path_table.hpp"

using namespace farandole;

namespace {

std::string_view route_of(operation asked, const set_facts& set, const path_wishes& wishes) {
  const auto routes = routes_for(set, wishes);
  REQUIRE(routes);
  return (*routes)[static_cast<std::size_t>(asked)]->name;
}

} // namespace

TEST_CASE("the numbers of members and hosts select solo, local or tcp") {
  CHECK(route_of(operation::allreduce, {1, 1}, {}) == "solo");
  CHECK(route_of(operation::alltoall, {1, 1}, {"ucx", true, true}) == "solo");
  CHECK(route_of(operation::allreduce, {4, 1}, {"auto", true, true}) == "local");
  CHECK(route_of(operation::allreduce, {4, 1}, {"ucx", true, true}) == "ucx");
  CHECK(route_of(operation::allreduce, {4, 1}, {"tcp", true, true}) == "tcp");
  CHECK(route_of(operation::allreduce, {4, 2}, {}) == "tcp");
}

TEST_CASE("a hierarchical setting selects that path for its operation if a host has several members") {
  const path_wishes allreduce{"auto", true, false}, allgather{"auto", false, true};
  CHECK(route_of(operation::allreduce, {4, 2}, allreduce) == "hierarchical");
  CHECK(route_of(operation::allgather, {4, 2}, allreduce) == "tcp");
  CHECK(route_of(operation::allgather, {3, 2}, allgather) == "hierarchical");
  CHECK(route_of(operation::allreduce, {4, 2}, allgather) == "tcp");
  CHECK(route_of(operation::broadcast, {4, 2}, {"auto", true, true}) == "tcp");
  CHECK(route_of(operation::allreduce, {3, 3}, allreduce) == "tcp");
  CHECK(route_of(operation::allreduce, {4, 2}, {"ucx", true, true}) == "ucx");
}

TEST_CASE("the hierarchical path keeps its rest path even if a plugin moves all other operations") {
  path_wishes wishes{"plugin", true, false};
  wishes.library_moves.fill(true);
  wishes.library_moves[static_cast<std::size_t>(operation::allreduce)] = false;
  const auto routes = routes_for({4, 2}, wishes);
  REQUIRE(routes);
  for (const char* name : {"plugin", "hierarchical", "tcp"})
    CHECK(needs(*routes, *find_path(name)));
  for (const char* name : {"solo", "local", "ucx"})
    CHECK_FALSE(needs(*routes, *find_path(name)));
}

TEST_CASE("the torus setting selects the hierarchical path only if all hosts have equally many members") {
  path_wishes torus;
  torus.torus_allreduce = true;
  CHECK(route_of(operation::allreduce, {4, 2, true}, torus) == "hierarchical");
  CHECK(route_of(operation::allreduce, {3, 2, false}, torus) == "tcp");
  CHECK(route_of(operation::allgather, {4, 2, true}, torus) == "tcp");
  CHECK(route_of(operation::allreduce, {4, 1, true}, torus) == "local");
}

TEST_CASE(
    "a path that must be requested by name moves all operations of a set with several members, or none") {
  for (const char* name : {"ucx", "gloo", "mpi"})
    for (const set_facts set : {set_facts{1, 1}, set_facts{4, 1}, set_facts{4, 2}, set_facts{4, 4}}) {
      const auto forced = routes_for(set, {name, true, true}), free = routes_for(set, {"auto", true, true});
      REQUIRE((forced && free));
      for (const auto* row : *forced)
        CHECK(row->name == (set.members == 1 ? "solo" : name));
      CHECK_FALSE(needs(*free, *find_path(name)));
    }
}

TEST_CASE("a forced path that cannot serve the set is refused with the reason") {
  const auto local = routes_for({4, 2}, {"local", false, false});
  REQUIRE_FALSE(local);
  CHECK(local.error().kind == error_kind::unimplemented);
  CHECK_THAT(local.error().text, Catch::Contains("FARANDOLE_CPU_PATH=local needs all members on one host"));
  const auto pigeons = routes_for({4, 2}, {"pigeons", false, false});
  REQUIRE_FALSE(pigeons);
  CHECK_THAT(pigeons.error().text,
             Catch::Contains("names a path that this build does not have; use auto, local, tcp, ucx, ") &&
                 Catch::EndsWith(" or " + std::string(path_table().back().name)));
  const auto levels = routes_for({4, 2}, {"hierarchical", true, true});
  REQUIRE_FALSE(levels);
  CHECK_THAT(levels.error().text, Catch::Contains("needs several hosts, one of them with several members"));
}

TEST_CASE("the report lists the operations of each path and gives the reason for each missing one") {
  const auto report = path_report();
  for (const auto& row : operation_table)
    CHECK((report.find("    " + std::string(row.name) + " ") != std::string::npos) ==
          (row.id != operation::join));
  CHECK_THAT(report, Catch::Contains("broadcast not by hierarchical: "));
}
