#include "messages/settings/settings.hpp"

#include <catch2/catch.hpp>

#include <set>

#include "messages/settings/environment_testing.hpp"
#include "messages/settings/settings_page.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

settings loaded(const setting_sources& sources) {
  auto result = settings::load(sources);
  REQUIRE(result);
  return *result;
}

std::string refusal(const setting_sources& sources) {
  auto result = settings::load(sources);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == error_kind::invalid_argument);
  return result.error().text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("every row stands at its id, has unique names and has a default in its range", "[settings]") {
  std::set<std::string_view> names;
  for (const auto& row : setting_table()) {
    CHECK(&row_of(row.id) == &row);
    CHECK(names.insert(row.name).second);
    CHECK(names.insert(row.environment).second);
    for (const auto key : {row.flag, row.flag_off, row.yaml_key})
      if (!key.empty() && key != "controller") // the one key that is spelt like its row's name
        CHECK(names.insert(key).second);
    CHECK_FALSE(row.doc.empty());
    CHECK(row.doc.ends_with('.'));
    CHECK((row.flag_off.empty() || row.type == setting_type::flag));
  }
  CHECK(settings::built_in().integer(setting::fusion_threshold) == 134217728);
}

TEST_CASE("flag beats file beats environment beats default, and the source is remembered", "[settings]") {
  setting_sources sources;
  CHECK(loaded(sources).source(setting::cache_capacity) == setting_source::built_in);
  CHECK(loaded(sources).integer(setting::cache_capacity) == 1024);
  sources.environment = environment_of({{"HOROVOD_CACHE_CAPACITY", "1"}});
  CHECK(loaded(sources).source(setting::cache_capacity) == setting_source::environment);
  CHECK(loaded(sources).integer(setting::cache_capacity) == 1);
  sources.file["params.cache_capacity"] = "2";
  CHECK(loaded(sources).source(setting::cache_capacity) == setting_source::file);
  CHECK(loaded(sources).integer(setting::cache_capacity) == 2);
  sources.flags["--cache-capacity"] = "3";
  CHECK(loaded(sources).source(setting::cache_capacity) == setting_source::flag);
  CHECK(loaded(sources).integer(setting::cache_capacity) == 3);
}

TEST_CASE("a switch in the environment is on for positive numbers and for words that mean on", "[settings]") {
  const std::pair<const char*, bool> cases[] = {
      {"1", true},   {"2.5", true}, {"true", true},   {"Yes", true}, {"ON", true},   {"0", false},
      {"-1", false}, {"", false},   {"False", false}, {"no", false}, {"off", false}, {" 1 ", true}};
  for (const auto& [text, on] : cases) {
    INFO(text);
    const auto values = loaded({environment_of({{"HOROVOD_AUTOTUNE", text}}), {}, {}});
    CHECK(values.flag(setting::autotune) == on);
    CHECK(values.source(setting::autotune) == setting_source::environment);
    CHECK(values.warnings().empty());
  }
}

TEST_CASE("a switch for which any number but zero means on is on for a negative one", "[settings]") {
  CHECK(loaded({environment_of({{"HOROVOD_CCL_CACHE", "-1"}}), {}, {}}).flag(setting::ccl_cache));
  CHECK_FALSE(
      loaded({environment_of({{"HOROVOD_BATCH_D2D_MEMCOPIES", "0"}}), {}, {}}).flag(setting::batch_copies));
}

TEST_CASE("garbage in the environment leaves the default and one warning with variable and value",
          "[settings]") {
  for (const auto& [name, text] :
       {std::pair{"HOROVOD_AUTOTUNE", "maybe"}, std::pair{"HOROVOD_CACHE_CAPACITY", "lots"},
        std::pair{"HOROVOD_CACHE_CAPACITY", "1.5"}, std::pair{"HOROVOD_CYCLE_TIME", "nan"},
        std::pair{"HOROVOD_CYCLE_TIME", ""}, std::pair{"HOROVOD_LOG_LEVEL", "chatty"}}) {
    INFO(name << "=" << text);
    const auto values = loaded({environment_of({{name, text}}), {}, {}});
    REQUIRE(values.warnings().size() == 1);
    CHECK(contains(values.warnings()[0], name));
    CHECK(contains(values.warnings()[0], text));
    for (const auto& row : setting_table())
      CHECK_FALSE(values.is_set(row.id));
  }
}

TEST_CASE("a value out of range is refused with the setting's name, the value and the range", "[settings]") {
  const auto text = refusal({environment_of({{"FARANDOLE_SEGMENT_CHUNK", "100"}}), {}, {}});
  CHECK(text == "segment chunk (FARANDOLE_SEGMENT_CHUNK) = '100' is out of range: 4096 to 67108864 bytes");
  CHECK(contains(refusal({environment_of({{"HOROVOD_CACHE_CAPACITY", "99999999999999999999"}}), {}, {}}),
                 "0 to 2147483647"));
  CHECK(contains(refusal({environment_of({{"HOROVOD_CYCLE_TIME", "1e999"}}), {}, {}}), "out of range"));
  CHECK(contains(refusal({{}, {}, {{"--autotune-gaussian-process-noise", "1.5"}}}), "0 to 1"));
}

TEST_CASE("the range is given in the unit of the typed value", "[settings]") {
  const auto text = refusal({{}, {}, {{"--fusion-threshold-mb", "-1"}}});
  CHECK(text == "fusion threshold (--fusion-threshold-mb) = '-1' is out of range: 0 to 1048576");
}

TEST_CASE("a flag or a value in the file that does not parse is refused", "[settings]") {
  CHECK(contains(refusal({{}, {}, {{"--cache-capacity", "many"}}}), "--cache-capacity"));
  CHECK(contains(refusal({{}, {{"params.cache_capacity", "many"}}, {}}), "params.cache_capacity"));
}

TEST_CASE("a key and a flag that no setting has are refused", "[settings]") {
  CHECK(refusal({{}, {{"params.no_key", "3"}}, {}}) == "there is no setting with the key 'params.no_key'");
  CHECK(refusal({{}, {}, {{"--no-flag", "3"}}}) == "there is no setting with the flag '--no-flag'");
}

TEST_CASE("flags and file have their own units", "[settings]") {
  CHECK(loaded({{}, {}, {{"--fusion-threshold-mb", "32"}}}).integer(setting::fusion_threshold) == 33554432);
  CHECK(loaded({{}, {{"params.fusion_threshold_mb", "0"}}, {}}).integer(setting::fusion_threshold) == 0);
  CHECK(loaded({{}, {}, {{"--cycle-time-ms", "2.5"}}}).duration(setting::cycle_time) == 2500us);
  CHECK(loaded({environment_of({{"HOROVOD_START_TIMEOUT", "0.25"}}), {}, {}})
            .duration(setting::start_timeout) == 250ms);
}

TEST_CASE("negated keys and off-switches invert their switch", "[settings]") {
  CHECK_FALSE(loaded({{}, {{"stall_check.enabled", "true"}}, {}}).flag(setting::stall_check_disable));
  CHECK(loaded({{}, {{"stall_check.enabled", "0"}}, {}}).flag(setting::stall_check_disable));
  CHECK(loaded({{}, {{"logging.with_timestamp", "no"}}, {}}).flag(setting::log_hide_time));
  const auto values = loaded({environment_of({{"HOROVOD_AUTOTUNE", "1"}}), {}, {{"--no-autotune", "1"}}});
  CHECK_FALSE(values.flag(setting::autotune));
  CHECK(values.source(setting::autotune) == setting_source::flag);
}

TEST_CASE("named values are accepted in any case, and unknown ones are refused", "[settings]") {
  CHECK(
      loaded({environment_of({{"HOROVOD_CPU_OPERATIONS", "GLOO"}}), {}, {}}).text(setting::cpu_operations) ==
      "gloo");
  CHECK(loaded({environment_of({{"HOROVOD_CPU_OPERATIONS", ""}}), {}, {}})
            .text(setting::cpu_operations)
            .empty());
  CHECK(contains(refusal({environment_of({{"HOROVOD_CONTROLLER", "smoke"}}), {}, {}}), "gloo, mpi"));
  CHECK(
      contains(refusal({environment_of({{"FARANDOLE_CPU_PATH", "fast"}}), {}, {}}), "auto, local, tcp, ucx"));
}

TEST_CASE("a citation names the setting, its variable and its value with the unit", "[settings]") {
  CHECK(settings::built_in().cited(setting::operation_timeout) ==
        "operation timeout (HOROVOD_GLOO_TIMEOUT_SECONDS) = 30 s");
  CHECK(settings::built_in().shown(setting::host_id) == "unset");
  CHECK(settings::built_in().shown(setting::fast_path) == "on");
}

TEST_CASE("assigning an invalid value leaves the old value", "[settings]") {
  auto values = settings::built_in();
  CHECK(values.assign(setting::segment_slots, "1", setting_source::flag));
  CHECK(values.integer(setting::segment_slots) == 4);
  CHECK_FALSE(values.is_set(setting::segment_slots));
  CHECK_FALSE(values.assign(setting::segment_slots, "8", setting_source::flag));
  CHECK(values.integer(setting::segment_slots) == 8);
}

TEST_CASE("a plain value can be assigned again and means the same", "[settings]") {
  auto values = loaded({{}, {}, {{"--cycle-time-ms", "0.125"}, {"--fusion-threshold-mb", "7"}}});
  auto copy = settings::built_in();
  for (const auto& row : setting_table()) {
    REQUIRE_FALSE(copy.assign(row.id, values.plain(row.id), setting_source::environment));
    CHECK(copy.shown(row.id) == values.shown(row.id));
  }
}

TEST_CASE("settings without effect are named as they were given, except switches that are off",
          "[settings]") {
  const auto values =
      loaded({environment_of(
                  {{"HOROVOD_AUTOTUNE", "0"}, {"HOROVOD_CACHE_CAPACITY", "7"}, {"HOROVOD_CCL_CACHE", "1"}}),
              {{"autotune.log_file", "log.csv"}, {"autotune.enabled", "0"}},
              {{"--autotune-warmup-samples", "1"}}});
  CHECK(values.given_without_effect() == std::vector<std::string>{"HOROVOD_CCL_CACHE",
                                                                  "autotune.log_file (config file)",
                                                                  "--autotune-warmup-samples"});
  CHECK(settings::built_in().given_without_effect().empty());
  // A switch that is on by default and was switched off.
  CHECK(loaded({environment_of({{"HOROVOD_BATCH_D2D_MEMCOPIES", "0"}}), {}, {}}).given_without_effect() ==
        std::vector<std::string>{"HOROVOD_BATCH_D2D_MEMCOPIES"});
}

TEST_CASE("one line names all settings without effect", "[settings]") {
  using names = std::vector<std::string>;
  CHECK(no_effect_warning(names{}).empty());
  CHECK(no_effect_warning(names{"--a"}) == "--a has no effect in this build");
  CHECK(no_effect_warning(names{"--a", "B"}) == "--a and B have no effect in this build");
  CHECK(no_effect_warning(names{"--a", "B", "c"}) == "--a, B and c have no effect in this build");
}

TEST_CASE("job-wide values of the rendezvous win, with a line for each that a member had set differently",
          "[settings]") {
  auto rendezvous =
      loaded({environment_of({{"HOROVOD_CACHE_CAPACITY", "7"}, {"FARANDOLE_FAST_PATH", "0"}}), {}, {}});
  auto member = loaded({environment_of({{"HOROVOD_CACHE_CAPACITY", "9"}, {"HOROVOD_RANK", "3"}}), {}, {}});
  const auto lines = member.override_with(rendezvous.job_wide());
  CHECK(member.integer(setting::cache_capacity) == 7);
  CHECK_FALSE(member.flag(setting::fast_path));
  CHECK(member.integer(setting::rank) == 3);
  CHECK(member.source(setting::cache_capacity) == setting_source::rendezvous);
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "cache capacity is 7"));
  CHECK(contains(lines[0], "9"));
}

TEST_CASE("a job-wide value that is unknown or out of range is ignored with a line", "[settings]") {
  auto member = settings::built_in();
  const std::vector<std::pair<std::string, std::string>> values = {{"moon phase", "3"},
                                                                   {"window slots", "1000"}};
  CHECK(member.override_with(values).size() == 2);
  CHECK(member.integer(setting::segment_slots) == 4);
}

TEST_CASE("the rendezvous cannot make a member load a library", "[settings]") {
  auto member = settings::built_in();
  const std::vector<std::pair<std::string, std::string>> values = {{"path library", "/tmp/theirs.so"}};
  const auto lines = member.override_with(values);
  CHECK(member.text(setting::path_library).empty());
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "path library"));
  auto rendezvous = loaded({environment_of({{"FARANDOLE_PATH_LIBRARY", "/lib/own.so"}}), {}, {}});
  for (const auto& [name, value] : rendezvous.job_wide())
    CHECK(name != "path library");
}

TEST_CASE("the settings page has a line for every row", "[settings]") {
  const auto page = settings_page();
  for (const auto& row : setting_table())
    CHECK(contains(page, "| `" + std::string(row.environment) + "` |"));
  CHECK(contains(page, "| 134217728 bytes | 0 to 1099511627776 bytes |"));
  for (const auto& row : setting_table()) {
    const auto begin = page.find("`" + std::string(row.environment) + "`");
    const auto line = page.substr(begin, page.find('\n', begin) - begin);
    CHECK(contains(line, "*No effect in this build.*") == !row.has_effect);
  }
}

TEST_CASE("a confidential value is not shown, only whether it is set", "[settings]") {
  CHECK(settings::built_in().shown(setting::secret) == "unset");
  const auto values = loaded({environment_of({{"FARANDOLE_SECRET", "6f1c0a9b"}}), {}, {}});
  CHECK(values.text(setting::secret) == "6f1c0a9b");
  CHECK(values.shown(setting::secret) == "set (not shown)");
  CHECK_FALSE(contains(values.cited(setting::secret), "6f1c0a9b"));
}
