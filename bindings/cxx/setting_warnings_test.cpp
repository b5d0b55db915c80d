#include "bindings/cxx/setting_warnings.hpp"

#include <catch2/catch.hpp>

#include "messages/settings/environment_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using lines = std::vector<std::string>;

namespace {

lines warnings_of(std::map<std::string, std::string> given, std::int32_t rank) {
  options options;
  options.read_environment = false;
  options.settings = std::move(given);
  return setting_warnings(settings_of(options.settings), options, rank);
}

} // namespace

TEST_CASE("rank 0 of a job without a launcher warns about settings without effect and unknown variables",
          "[setting warnings]") {
  const std::map<std::string, std::string> given = {{"HOROVOD_AUTOTUNE", "1"}, {"HOROVOD_CYCLE_TIM", "1"}};
  CHECK(warnings_of(given, 0) ==
        lines{"HOROVOD_AUTOTUNE has no effect in this build",
              "unknown environment variable: HOROVOD_CYCLE_TIM (did you mean HOROVOD_CYCLE_TIME?); nothing "
              "reads it"});
  CHECK(warnings_of(given, 1).empty());
  auto launched = given;
  launched["FARANDOLE_SECRET_FD"] = "3";
  CHECK(warnings_of(launched, 0).empty());
  CHECK(warnings_of({{"HOROVOD_CYCLE_TIME", "1"}}, 0).empty());
}
