#include "elastic/path_objection.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

settings with(std::vector<std::pair<setting, const char*>> values) {
  auto all = settings::built_in();
  for (const auto& [which, value] : values)
    REQUIRE_FALSE(all.assign(which, value, setting_source::environment));
  return all;
}

} // namespace

TEST_CASE("oneCCL and an elastic job refuse each other, by the setting that asks for it") {
  for (const auto& [which, name] : {std::pair{setting::cpu_path, "FARANDOLE_CPU_PATH"},
                                    {setting::cpu_operations, "HOROVOD_CPU_OPERATIONS"}}) {
    const auto why = objection_to_path(with({{setting::elastic, "1"}, {which, "ccl"}}));
    CHECK(why.kind == error_kind::precondition);
    CHECK_THAT(why.text, Catch::StartsWith(std::string(name) + "=ccl is not for an elastic job") &&
                             Catch::Contains(std::string("Unset ") + name) && Catch::Contains("--min-np"));
  }
}

TEST_CASE("oneCCL in a job whose members stay, and other paths in an elastic one, may be") {
  CHECK_FALSE(objection_to_path(with({{setting::cpu_path, "ccl"}})));
  CHECK_FALSE(objection_to_path(with({{setting::elastic, "1"}})));
  CHECK_FALSE(objection_to_path(with({{setting::elastic, "1"}, {setting::cpu_path, "gloo"}})));
  CHECK_FALSE(objection_to_path(
      with({{setting::elastic, "1"}, {setting::cpu_path, "local"}, {setting::cpu_operations, "ccl"}})));
}
