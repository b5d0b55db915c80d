// The module that a job loads for oneCCL, the error if it is missing, and the routes of operations in such a
// job.
#include <catch2/catch.hpp>

#include "collectives/transport/ccl/ccl_library.hpp"
#include "collectives/transport/path_routes.hpp"
#include "collectives/transport/path_table.hpp"
#include "collectives/transport/plugin/plugin_library.hpp"

using namespace farandole;

TEST_CASE("ccl: the module provides a path, and the error for a missing module says how to get it") {
  const auto module = find_ccl_module();
  if (module) {
    const auto library = load_plugin_path(*module);
    REQUIRE(library);
    CHECK((*library)->name == std::string("oneCCL"));
    CHECK(operations_of(**library)[static_cast<std::size_t>(operation::alltoall)]);
    CHECK_FALSE(operations_of(**library)[static_cast<std::size_t>(operation::reducescatter)]);
    return;
  }
  CHECK(module.error().kind == error_kind::unimplemented);
  for (const char* word : {"HOROVOD_CPU_OPERATIONS=ccl", "tools/setup --with-ccl", "FARANDOLE_CCL_ROOT",
                           "oneccl-devel", "intel-cmplr-lib-rt"})
    CHECK_THAT(module.error().text, Catch::Contains(word));
}

TEST_CASE("ccl: oneCCL moves the global set; other sets and unsupported operations use the default paths") {
  path_wishes wishes;
  wishes.forced = "ccl";
  wishes.library_moves.fill(true);
  wishes.library_moves[static_cast<std::size_t>(operation::reducescatter)] = false;
  const auto route = [&](const set_facts& set, operation op) {
    const auto routes = routes_for(set, wishes);
    REQUIRE(routes);
    return (*routes)[static_cast<std::size_t>(op)]->name;
  };
  CHECK(route({4, 2}, operation::allreduce) == "ccl");
  CHECK(route({4, 1}, operation::alltoall) == "ccl");
  CHECK(route({1, 1}, operation::allreduce) == "solo");
  CHECK(route({4, 1}, operation::reducescatter) == "local");
  CHECK(route({4, 2}, operation::reducescatter) == "tcp");
  wishes.library_moves = {}; // oneCCL moves nothing of another set
  CHECK(route({4, 2, true, false}, operation::allreduce) == "tcp");
  CHECK(route({4, 1, true, false}, operation::allreduce) == "local");
}
