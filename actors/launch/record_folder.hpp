// Folders for event records and traces: one for each failure or trace of a job, which only this user can access. The
// newest ones are kept, and older ones are removed.
#pragma once

#include <chrono>
#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// The number of folders that are kept.
inline constexpr std::size_t most_record_folders = 8;

/// The folder of all these folders: `farandole/dumps` below $XDG_STATE_HOME, or below ~/.local/state. Empty if the user
/// has no home folder.
std::string record_folders_of_this_user();

/// Makes a folder in `parent`, which is made as well. Its name consists of the time and this process's id. Then removes
/// the oldest folders.
expected<std::string> make_record_folder(const std::string& parent,
                                         std::chrono::system_clock::time_point time);

/// Makes a folder for files that are only read once, which only this user can access. The caller removes it.
expected<std::string> make_temporary_record_folder();

} // namespace farandole
