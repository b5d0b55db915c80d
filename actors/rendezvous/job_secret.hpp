// The job's secret, as its user hands it in. Whoever knows it is a member of the job and may run code in
// every other one, so a secret that can be guessed, or read by others, is refused with the way to make a
// better one.
#pragma once

#include <string>
#include <string_view>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Bits that a text of these characters holds at the most: those of the alphabet that it is written in, for
/// each character that does not go on with a repetition or a sequence of eight or more ("abcabcabc…",
/// "12345678…"). What a human has thought up has fewer.
double most_entropy_bits(std::string_view secret);

/// Refuses what cannot hold 16 random bytes. `origin` names where it comes from.
error check_secret(std::string_view secret, const std::string& origin);

/// Of a plain file, or a link to one, that its user or root owns and nobody else can read. `origin` names the
/// file in errors.
expected<std::string> read_secret_file(const std::string& path, const std::string& origin);

/// From the inherited descriptor or the file that the settings name. Empty when they name none. The
/// descriptor is close-on-exec afterwards: programs that this process starts do not get it.
expected<std::string> job_secret(const settings& values);

/// A new one, at random.
expected<std::string> make_secret();

} // namespace farandole
