// The manual page farandole(1), in the language of man (troff).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/farandole/reference/command_description.hpp"

namespace farandole {

/// `examples` is the text of the help that follows the options of `farandole run`.
std::string manual_page(std::span<const command_description> commands, std::string_view version,
                        const std::string& examples);

} // namespace farandole
