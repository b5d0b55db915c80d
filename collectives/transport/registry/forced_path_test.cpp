#include "collectives/transport/registry/forced_path.hpp"

#include <catch2/catch.hpp>

#include <utility>
#include <vector>

using namespace farandole;

namespace {

settings with(const std::vector<std::pair<setting, const char*>>& values) {
  auto all = settings::built_in();
  for (const auto& [which, value] : values)
    REQUIRE_FALSE(all.assign(which, value, setting_source::environment));
  return all;
}

settings trusting(setting which, const char* path) {
  return with({{setting::trusted_network, "1"}, {which, path}});
}

constexpr std::pair<setting, const char*> requesting_settings[] = {
    {setting::cpu_path, "FARANDOLE_CPU_PATH"}, {setting::cpu_operations, "HOROVOD_CPU_OPERATIONS"}};

} // namespace

TEST_CASE("oneCCL in an elastic job is refused, and the error names the setting that requests it") {
  for (const auto& [which, name] : requesting_settings) {
    auto values = trusting(which, "ccl");
    REQUIRE_FALSE(values.assign(setting::elastic, "1", setting_source::environment));
    const auto reason = objection_to_path(values);
    CHECK(reason.kind == error_kind::precondition);
    CHECK_THAT(reason.text, Catch::StartsWith(std::string(name) + "=ccl is not for an elastic job") &&
                                Catch::Contains(std::string("Unset ") + name) && Catch::Contains("--min-np"));
  }
}

TEST_CASE("oneCCL in a job of fixed size and other paths in an elastic job are accepted") {
  CHECK_FALSE(objection_to_path(trusting(setting::cpu_path, "ccl")));
  CHECK_FALSE(objection_to_path(with({{setting::elastic, "1"}})));
  CHECK_FALSE(objection_to_path(
      with({{setting::elastic, "1"}, {setting::cpu_path, "gloo"}, {setting::trusted_network, "1"}})));
  CHECK_FALSE(objection_to_path(
      with({{setting::elastic, "1"}, {setting::cpu_path, "local"}, {setting::cpu_operations, "ccl"}})));
}

TEST_CASE("paths without protection require a network that the user has declared trusted") {
  for (const auto& [which, name] : requesting_settings)
    for (const std::string path : {"mpi", "ccl"}) {
      const auto reason = objection_to_path(with({{which, path.c_str()}}));
      CHECK(reason.kind == error_kind::precondition);
      CHECK_THAT(reason.text, Catch::StartsWith(std::string(name) + "=" + path + " moves tensors") &&
                                  Catch::Contains("Unset " + std::string(name)) &&
                                  Catch::Contains("FARANDOLE_TRUSTED_NETWORK=1"));
      CHECK_FALSE(objection_to_path(trusting(which, path.c_str())));
    }
  CHECK(objection_to_path(with({{setting::cpu_path, "gloo"}})).kind == error_kind::precondition);
  for (const auto* path : {"auto", "local", "ucx", "plugin"})
    CHECK_FALSE(objection_to_path(with({{setting::cpu_path, path}})));
  // This value names a controller, which moves no tensors.
  CHECK_FALSE(objection_to_path(with({{setting::cpu_operations, "gloo"}})));
}

TEST_CASE("a job that requires security refuses unprotected paths on a trusted network, too") {
  for (const std::string path : {"ucx", "gloo", "mpi", "ccl", "plugin"}) {
    auto values = trusting(setting::cpu_path, path.c_str());
    REQUIRE_FALSE(values.assign(setting::require_secure, "1", setting_source::environment));
    const auto reason = objection_to_path(values);
    CHECK(reason.kind == error_kind::precondition);
    CHECK_THAT(reason.text, Catch::StartsWith("FARANDOLE_CPU_PATH=" + path) &&
                                Catch::Contains("FARANDOLE_REQUIRE_SECURE is set"));
  }
  for (const auto* path : {"auto", "local", "tcp"})
    CHECK_FALSE(objection_to_path(with({{setting::require_secure, "1"}, {setting::cpu_path, path}})));
}

TEST_CASE("paths over libraries that choose their own ports refuse a range of ports") {
  for (const std::string path : {"gloo", "mpi", "ccl"})
    CHECK_THAT(
        objection_to_path(with({{setting::trusted_network, "1"},
                                {setting::cpu_path, path.c_str()},
                                {setting::port_range, "4000-4003"}}))
            .text,
        Catch::StartsWith("FARANDOLE_PORT_RANGE=4000-4003 does not work with FARANDOLE_CPU_PATH=" + path));
  for (const auto* path : {"auto", "local", "ucx"})
    CHECK_FALSE(objection_to_path(with({{setting::cpu_path, path}, {setting::port_range, "4000-4003"}})));
}

TEST_CASE("a job with an unprotected path on a trusted network gets a warning, and other jobs do not") {
  for (const auto* path : {"ucx", "gloo", "mpi", "ccl", "plugin"}) {
    if (path != std::string("plugin"))
      CHECK_THAT(unprotected_path_warning(trusting(setting::cpu_path, path)),
                 Catch::Contains(std::string("travel by ") + path) && Catch::Contains("FARANDOLE_CPU_PATH"));
    CHECK_FALSE(is_authenticated(path));
  }
  for (const auto* path : {"auto", "local"}) {
    CHECK(unprotected_path_warning(trusting(setting::cpu_path, path)).empty());
    CHECK(is_authenticated(path));
  }
}
