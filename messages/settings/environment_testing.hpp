// Environment variables of tests, and the settings that they give, without the environment of the test's process.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "messages/settings/settings.hpp"

namespace farandole::testing {

using variables = std::map<std::string, std::string>;

inline environment_lookup environment_of(variables values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

inline settings settings_of(variables values) {
  auto loaded = settings::load({environment_of(std::move(values)), {}, {}});
  REQUIRE(loaded);
  return *loaded;
}

} // namespace farandole::testing
