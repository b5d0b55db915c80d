// The capabilities of every operation, as Markdown for docs/operations.md. Generated from the operation table,
// the path table and the validation of requests, so that the page always agrees with the code.
#pragma once

#include <string>

namespace farandole {

/// The tables, without the page's title; ends in a newline.
std::string operations_tables();

} // namespace farandole
