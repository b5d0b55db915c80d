#include "bindings/cxx/setting_warnings.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using lines = std::vector<std::string>;

namespace {

lines warnings_of(std::map<std::string, std::string> given, std::int32_t rank) {
  options options;
  options.read_environment = false;
  options.settings = std::move(given);
  const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = options.settings.find(std::string(name));
    return found == options.settings.end() ? std::nullopt : std::optional(found->second);
  };
  const auto values = settings::load({lookup, {}, {}});
  REQUIRE(values);
  return setting_warnings(*values, options, rank);
}

} // namespace

TEST_CASE("rank 0 of a job without a launcher warns about settings without effect and unknown variables",
          "[setting warnings]") {
  const std::map<std::string, std::string> given = {{"HOROVOD_TIMELINE", "t.json"},
                                                    {"HOROVOD_CYCLE_TIM", "1"}};
  CHECK(warnings_of(given, 0) ==
        lines{"HOROVOD_TIMELINE has no effect in this build",
              "unknown environment variable: HOROVOD_CYCLE_TIM (did you mean HOROVOD_CYCLE_TIME?); nothing "
              "reads it"});
  CHECK(warnings_of(given, 1).empty());
  auto launched = given;
  launched["FARANDOLE_SECRET_FD"] = "3";
  CHECK(warnings_of(launched, 0).empty());
  CHECK(warnings_of({{"HOROVOD_CYCLE_TIME", "1"}}, 0).empty());
}
