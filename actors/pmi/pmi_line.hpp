// The lines of the PMI-1 wire protocol, by which a process that MPICH's or Intel MPI's mpirun or `srun --mpi=pmi2`
// started talks to its process manager. A line is "cmd=NAME", then fields "key=value", separated by spaces. The
// protocol is described in: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
// Systems", EuroMPI 2010. Encoding and decoding are pure functions; a line that cannot be understood is refused as a
// whole.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// Limits of a line, its newline included, and of its fields. The longest value that a known process manager accepts
/// has 4096 bytes.
inline constexpr std::size_t most_pmi_line_bytes = 8192;
inline constexpr std::size_t most_pmi_fields = 32;

struct pmi_line {
  std::string command;                                    ///< the value of "cmd"; never empty
  std::map<std::string, std::string, std::less<>> fields; ///< all other fields

  /// The value of a field; empty if it is missing.
  std::string_view field(std::string_view key) const;
  friend bool operator==(const pmi_line&, const pmi_line&) = default;
};

/// Whether a text can be a value of a field: not empty, printable ASCII, no spaces.
bool is_pmi_value(std::string_view text);

/// Decodes a line without its newline.
expected<pmi_line> parse_pmi_line(std::string_view line);

/// Encodes a request with its newline. Every value must satisfy is_pmi_value().
std::string encode_pmi_line(std::string_view command,
                            const std::vector<std::pair<std::string_view, std::string_view>>& fields);

/// The reason why a reply is not the expected one: another command, or a result code other than 0. Kind none if it is.
error objection_to_reply(const pmi_line& reply, std::string_view command);

} // namespace farandole
