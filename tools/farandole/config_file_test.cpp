#include "tools/farandole/config_file.hpp"

#include <catch2/catch.hpp>

#include "messages/settings/settings.hpp"

using namespace farandole;
using values = std::map<std::string, std::string>;

namespace {

values parsed(const std::string& content) {
  auto result = parse_config(content);
  REQUIRE(result);
  return *result;
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
  for (const std::string content : {"a: [1", "just words", "- a\n- b\n", "a: [[1]]\n"})
    CHECK_FALSE(parse_config(content));
  std::string deep;
  for (int level = 0; level < 20; ++level)
    deep += "{a: ";
  deep += "1" + std::string(20, '}');
  CHECK_FALSE(parse_config(deep));
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
