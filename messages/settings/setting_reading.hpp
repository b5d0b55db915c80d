// Reads the text that a user gave for one setting, as the type and the range of the setting's row demand, and says
// the fault of a text that cannot be used. settings.hpp decides which source gives the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "messages/settings/settings.hpp"

namespace farandole {

/// The result of parsing a text. Callers react differently to `garbage` and `outside`.
enum class reading_kind : std::uint8_t { good, garbage, outside };
struct reading {
  reading_kind kind;
  setting_content content{};
};

/// `factor`: the number in `text`, times this, is a number in the row's unit.
reading read_setting(const setting_row& row, std::string_view text, double factor);

/// Why this text, given under this name, cannot be used. `kind`: that of the reading.
std::string complaint(const setting_row& row, std::string_view name, std::string_view text, double factor,
                      reading_kind kind);

/// Nanoseconds in the unit of a duration's row.
double nanoseconds_per(std::string_view unit);

} // namespace farandole
