// Reads and checks the job's secret. A process that knows the secret can become a member of the job and run code in
// every other member. Therefore a secret that can be guessed, or that other users can read, is refused, and the error
// tells how to make a better one.
#pragma once

#include <string>
#include <string_view>

#include "messages/settings/secret_variable.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Returns an upper bound of the entropy of a text, in bits: the bits per character of its alphabet, times the number
/// of characters that do not continue a repetition or a sequence of eight or more ("abcabcabc…", "12345678…"). A text
/// that a human has made up has less entropy.
double most_entropy_bits(std::string_view secret);

/// Refuses a secret with less than 128 bits of entropy (16 random bytes). `origin` names its source in errors.
error check_secret(std::string_view secret, const std::string& origin);

/// Reads the secret from a regular file, or a link to one. The file must belong to the user or to root, and other
/// users must have no access to it. One mode is an exception: where root gives a file to another user's group with mode
/// 0440, as Kubernetes does, the group may read it. `origin` names the file in errors.
expected<std::string> read_secret_file(const std::string& path, const std::string& origin);

/// Returns the secret from the first of these sources that the settings name: the inherited descriptor, the file, the
/// variable FARANDOLE_SECRET. A descriptor that cannot be read counts as not named if another source is. Returns an
/// empty string if none is named. Afterwards the descriptor is close-on-exec and the variable is not in the
/// environment, so that programs that this process starts do not inherit the secret.
expected<std::string> job_secret(const settings& values);

/// Makes a new random secret.
expected<std::string> make_secret();

/// Puts the secret into a sealed memory file, which every worker inherits and no process can change. The workers share
/// its file offset, so they must read it with pread.
expected<descriptor> shared_secret(const std::string& secret);

} // namespace farandole
