// Translates the arguments of the C interface into those of the C++ one. Checks the properties that C cannot express:
// numbers that must name an enumerator, pointers that may be null, extents that may overflow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <farandole/farandole.h>

#include "bindings/cxx/runtime.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// An argument cannot be used, for this reason.
error refuse(std::string text);

expected<options> options_from(const farandole_options& given);
expected<std::vector<std::int32_t>> ranks_from(const farandole_process_set& given);

/// `target` refers to memory of `given`.
error translate(const farandole_submission& given, submission& target);

} // namespace farandole
