// Where this code lies, so that what was installed beside it is found.
#pragma once

#include <string>

namespace farandole {

/// Of the program or library that this code is a part of: a full path with the slash at its end.
std::string own_folder();

} // namespace farandole
