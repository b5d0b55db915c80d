// The folder of this code, so that files installed beside it can be found.
#pragma once

#include <string>

namespace farandole {

/// The folder of the program or library that contains this code: a full path that ends with a slash.
std::string own_folder();

} // namespace farandole
