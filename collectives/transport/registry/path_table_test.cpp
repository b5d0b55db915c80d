#include "collectives/transport/path_table.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "collectives/operation.hpp"
#include "messages/settings/settings.hpp"

using namespace farandole;

TEST_CASE("every path is found by its unique name") {
  for (const auto& row : path_table())
    CHECK(find_path(row.name) == &row);
  CHECK(find_path("auto") == nullptr);
}

TEST_CASE("a row of the path table names the path and the switch that it depends on") {
  for (const auto& row : path_table()) {
    INFO(row.name);
    CHECK(row.open != nullptr);
    CHECK((row.is_switched_on != nullptr) == (row.choice == path_choice::switched));
    if (!row.rest_goes_by.empty()) {
      const auto* rest = find_path(row.rest_goes_by);
      REQUIRE(rest != nullptr);
      for (const auto& asked : operation_table)
        CHECK((!row.moves(asked.id) || rest->moves(asked.id)));
    }
  }
}

TEST_CASE("unmoved_operations gives the reason of each listed operation, and no path moves join") {
  constexpr unmoved_operations none, unmoved_operations = {{operation::alltoall, "too far"}};
  CHECK(none[operation::alltoall].empty());
  CHECK(unmoved_operations[operation::alltoall] == "too far");
  CHECK(unmoved_operations[operation::broadcast].empty());
  for (const auto& row : path_table())
    CHECK_FALSE(row.moves(operation::join));
}

TEST_CASE("FARANDOLE_CPU_PATH accepts the paths that can be forced, in the order of the table") {
  std::string choices = "auto";
  for (const auto& row : path_table())
    if (row.can_be_forced())
      choices += "|" + std::string(row.name);
  CHECK(row_of(setting::cpu_path).choices == choices);
}
