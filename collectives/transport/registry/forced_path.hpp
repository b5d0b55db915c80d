// A user can force one data path by a setting. These functions find that path, and refuse it for jobs that it
// cannot serve safely: an elastic job cannot use oneCCL, and a path that neither authenticates nor encrypts
// tensors needs a network that the user has declared trusted.
#pragma once

#include <string>
#include <string_view>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct forced_path {
  std::string name = "auto"; ///< as in path_table.hpp; "auto": no setting forces one
  std::string_view variable; ///< the environment variable that forces it; empty for "auto"
};

forced_path find_forced_path(const settings& values);

/// Whether the receiver can verify that its bytes came from a member of the job, unchanged. True for "auto"
/// and for paths in shared memory.
bool is_authenticated(std::string_view path);

/// Why a job with these settings cannot start, and the remedy; kind `none` if it can.
error objection_to_path(const settings& values);

/// One line for the log of a job whose tensors travel unprotected because the user allowed it; empty for
/// every other job.
std::string unprotected_path_warning(const settings& values);

} // namespace farandole
