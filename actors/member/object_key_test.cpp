#include "actors/member/object_key.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

std::string key_for(const char* path, const std::string& secret) {
  auto values = settings::built_in();
  REQUIRE_FALSE(values.assign(setting::cpu_path, path, setting_source::environment));
  return object_key(values, secret);
}

} // namespace

TEST_CASE("objects get a key derived from the job's secret if the data path does not authenticate them") {
  const auto key = key_for("gloo", "one secret of a job");
  CHECK(key.size() == 32);
  CHECK(key == key_for("mpi", "one secret of a job"));
  CHECK(key != key_for("gloo", "another secret of a job"));
  CHECK(key_for("auto", "one secret of a job").empty());
  CHECK(key_for("local", "one secret of a job").empty());
  CHECK(key_for("gloo", "").empty());
}
