// The key for the authentication of Python objects. Objects are sent pickled, and unpickling bytes of an attacker
// runs the attacker's code. Some data paths do not authenticate their data. Objects that are sent on these paths
// carry a tag (HMAC-SHA256), whose key only members of the job can derive.
#pragma once

#include <string>

#include "messages/settings/settings.hpp"

namespace farandole {

/// Returns 32 bytes derived from the job's secret (derive_key() in tls.hpp). Returns an empty key if the data path
/// that these settings choose authenticates its data, or if the job has no secret because it has only one process.
std::string object_key(const settings& values, const std::string& secret);

} // namespace farandole
