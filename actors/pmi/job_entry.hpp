// The text by which rank 0 tells the other processes of a job where the rendezvous is. It goes through the launcher's
// process manager, so it is printable, without spaces, and shorter than 1000 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct job_entry {
  std::vector<std::string>
      ips; ///< its numeric addresses, at least one of which the others reach; empty: rank 0 could
           ///< not start the rendezvous
  std::uint16_t port = 0;
  std::string new_secret; ///< hexadecimal; empty: every process was given the secret of the job

  friend bool operator==(const job_entry&, const job_entry&) = default;
};

std::string encode_job_entry(const job_entry& entry);

/// Decodes the entry, or returns the reason why it is not valid.
expected<job_entry> parse_job_entry(std::string_view text);

} // namespace farandole
