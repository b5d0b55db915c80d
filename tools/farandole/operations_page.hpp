// What every operation can do, as Markdown for docs/operations.md: made from the operation table, the path
// table and the check of requests, so that the page cannot say anything else than the code does.
#pragma once

#include <string>

namespace farandole {

/// The tables, without the page's title; ends in a newline.
std::string operations_tables();

} // namespace farandole
