// The table of settings, divided by subject. Its parts are in the order of the enumerators.
#pragma once

#include <span>

#include "messages/settings/settings.hpp"

namespace farandole {

inline constexpr double kilobyte = 1024;
inline constexpr double megabyte = 1024 * kilobyte;
inline constexpr double gigabyte = 1024 * megabyte;
inline constexpr double terabyte = 1024 * gigabyte;
inline constexpr double largest_int = 2147483647;
inline constexpr double day_s = 86400;
inline constexpr double largest_timeout_s = 365 * day_s;

std::span<const setting_row> members_settings();
std::span<const setting_row> job_settings();
std::span<const setting_row> deadlines_settings();
std::span<const setting_row> watching_settings();
std::span<const setting_row> launch_settings();
std::span<const setting_row> tuner_settings();
std::span<const setting_row> spark_settings();

} // namespace farandole
