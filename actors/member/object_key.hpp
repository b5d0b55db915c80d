// Python objects are pickled, and unpickling bytes of a stranger runs the stranger's code. Some data paths do
// not authenticate what they carry; objects that travel by these carry a tag (HMAC-SHA256) of their own,
// under a key that only members of the job can derive.
#pragma once

#include <string>

#include "messages/settings/settings.hpp"

namespace farandole {

/// 32 bytes, derived from the job's secret (derive_key() in tls.hpp); empty where the data path that these
/// settings choose authenticates its bytes, or where the job has no secret because it is one process.
std::string object_key(const settings& values, const std::string& secret);

} // namespace farandole
