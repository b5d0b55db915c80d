#include "tools/farandole/config_file.hpp"

#include <catch2/catch.hpp>

#include "messages/settings/settings.hpp"

using namespace farandole;
using values = std::map<std::string, std::string>;

namespace {

values parsed(const std::string& content) {
  auto result = parse_config("job.yaml", content);
  REQUIRE(result);
  return result->values;
}

std::string problem_of(const std::string& content) {
  auto file = parse_config("job.yaml", content);
  if (!file)
    return file.error().text;
  const auto checked = check_config(*file);
  return checked ? "" : checked.error().text;
}

} // namespace

TEST_CASE("sections become dotted keys and booleans become 1 and 0", "[config]") {
  CHECK(parsed("params:\n  fusion_threshold_mb: 32\n  hierarchical_allreduce: True\nlogging:\n  level: INFO\n"
               "  with_timestamp: no\n") == values{{"params.fusion_threshold_mb", "32"},
                                                   {"params.hierarchical_allreduce", "1"},
                                                   {"logging.level", "INFO"},
                                                   {"logging.with_timestamp", "0"}});
}

TEST_CASE("without the key enabled an autotune section is off and a stall_check section is on", "[config]") {
  CHECK(parsed("autotune:\n  log_file: x.csv\n") ==
        values{{"autotune.enabled", "0"}, {"autotune.log_file", "x.csv"}});
  CHECK(parsed("stall_check:\n  warning_time_seconds: 5\n") ==
        values{{"stall_check.enabled", "1"}, {"stall_check.warning_time_seconds", "5"}});
  CHECK(parsed("autotune:\n  enabled: true\n") == values{{"autotune.enabled", "1"}});
}

TEST_CASE("an empty file, and keys without values, set nothing", "[config]") {
  CHECK(parsed("").empty());
  CHECK(parsed("params:\n").empty());
  CHECK(parsed("timeline:\n  filename:\n").empty());
}

TEST_CASE("a list becomes a comma-separated list", "[config]") {
  CHECK(parsed("library_options:\n  thread_affinity: [1, 3]\n") ==
        values{{"library_options.thread_affinity", "1,3"}});
}

TEST_CASE("a file that is not YAML, not a map, or nested too deeply is refused", "[config]") {
  CHECK(problem_of("a: 1\nb: [1") == "config file job.yaml, line 2: end of sequence flow not found");
  for (const std::string content : {"just words", "- a\n- b\n"})
    CHECK(problem_of(content) == "config file job.yaml, line 1: it holds no 'key: value' lines");
  CHECK(problem_of("a:\n  b: [[1]]\n") == "config file job.yaml, line 2: 'a.b' may hold plain values only");
  std::string deep;
  for (int level = 0; level < 20; ++level)
    deep += "{a: ";
  deep += "1" + std::string(20, '}');
  CHECK(problem_of(deep).ends_with("' is nested too deeply"));
}

TEST_CASE("a value that its setting cannot have is refused with file, line and key", "[config]") {
  CHECK(
      problem_of("# cache\nparams:\n  cycle_time_ms: 1\n  cache_capacity: many\n") ==
      "config file job.yaml, line 4: cache capacity (params.cache_capacity) = 'many' is not a whole number");
  CHECK(problem_of("controller: ddl\n")
            .starts_with("config file job.yaml, line 1: controller (controller) = 'ddl'"));
  CHECK(problem_of("params:\n  cycle_time_ms: [1, 2]\n").starts_with("config file job.yaml, line 2: "));
  CHECK(
      problem_of("library_options:\n  thread_affinity: [1, x]\n") ==
      "config file job.yaml, line 2: thread affinity (library_options.thread_affinity) = '1,x' is no core id "
      "and no comma list of them");
  CHECK(problem_of("params:\n  fusion_threshold_mb: -1\n") ==
        "config file job.yaml, line 2: fusion threshold (params.fusion_threshold_mb) = '-1' is out of range: "
        "0 to 1048576");
}

TEST_CASE("a key that no setting has is left out, with file, line and the nearest key in a warning",
          "[config]") {
  auto file = parse_config("job.yaml", "params:\n  cycle_time_ms: 1\n  fusion_treshold_mb: 3\nodd: 1\n");
  REQUIRE(file);
  const auto warnings = check_config(*file);
  REQUIRE(warnings);
  CHECK(*warnings == std::vector<std::string>{
                         "config file job.yaml, line 4: there is no setting 'odd'",
                         "config file job.yaml, line 3: there is no setting 'params.fusion_treshold_mb'; "
                         "did you mean 'params.fusion_threshold_mb'?"});
  CHECK(file->values == values{{"params.cycle_time_ms", "1"}});
}

TEST_CASE("a checked switch is 1 or 0 in every spelling", "[config]") {
  auto file = parse_config("job.yaml", "params:\n  hierarchical_allreduce: 'Yes'\n  torus_allreduce: 2\n"
                                       "stall_check:\n  enabled: 'off'\n");
  REQUIRE(file);
  REQUIRE(check_config(*file));
  CHECK(file->values == values{{"params.hierarchical_allreduce", "1"},
                               {"params.torus_allreduce", "1"},
                               {"stall_check.enabled", "0"}});
}

TEST_CASE("a missing file is named", "[config]") {
  const auto result = read_config_file("/nonexistent/farandole.yaml");
  REQUIRE_FALSE(result);
  CHECK(result.error().text.find("/nonexistent/farandole.yaml") != std::string::npos);
}

TEST_CASE("every key of the settings table can be set in a file", "[config]") {
  for (const auto& row : setting_table()) {
    if (row.yaml_key.empty() || row.type == setting_type::text)
      continue;
    std::string content(row.yaml_key);
    if (const auto dot = content.find('.'); dot != std::string::npos)
      content.replace(dot, 1, ":\n  ");
    auto result = settings::load({{}, parsed(content + ": 1\n"), {}});
    REQUIRE(result);
    CHECK(result->source(row.id) == setting_source::file);
    CHECK(result->warnings().empty());
  }
}
