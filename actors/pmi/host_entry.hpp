// The text by which every process of a job tells rank 0 about its host. It goes through the launcher's process manager, so
// it is printable, without spaces, and shorter than 1000 bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

struct pmi_entry {
  std::string digest;                  ///< of the host's identity, hexadecimal; equal digests: the same host
  std::vector<host_address> addresses; ///< at which other hosts may reach it

  friend bool operator==(const pmi_entry&, const pmi_entry&) = default;
};

/// Leaves out addresses for which there is no room, and those of interfaces whose names cannot be written.
std::string encode_host_entry(const pmi_entry& entry);

/// Decodes the entry of a rank, or returns the reason why it is not valid.
expected<pmi_entry> parse_host_entry(std::string_view text, std::int32_t rank);

} // namespace farandole
