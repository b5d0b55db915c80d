// Warnings for users, once per job, about the settings that they gave: settings without effect, and variables that
// are probably mistyped. The launcher logs them if there is one, otherwise rank 0 does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cxx/runtime.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

/// The lines for this rank to log; none on other ranks than 0, and none in a job that the launcher started.
std::vector<std::string> setting_warnings(const settings& values, const options& given, std::int32_t rank);

} // namespace farandole
