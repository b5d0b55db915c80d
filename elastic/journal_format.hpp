// How a journal lies in its file. Pure: bytes in, values out.
//
//   file    = header record*
//   header  = "FARANDJL" version:u32 0:u32
//   record  = type:u32 size:u32 head:u64 body:u64 payload          all numbers little-endian
//
// `head` is the checksum of type and size, `body` that of the payload: the first eight bytes of their
// SHA-256. So it is known where a record ends even if its payload is spoilt, and that a size is none.
//
// Records are appended, each by one write. Whoever is killed at that leaves a torn last record: it counts as
// never written. Anything else that is wrong is damage, and nothing behind it can be believed: the file is
// refused, with the offset.
//
//   type 1  snapshot   a whole job (messages/journal.capnp); what came before it is forgotten
//   type 2  change     what is different in the job since
//   type 3  blacklist  all hosts that failed (messages/blacklist.capnp), in place of those of earlier ones
//   type 4             kept free for the register of process sets
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messages/error.hpp"
#include "messages/failed_host.hpp"
#include "messages/job_image.hpp"

namespace farandole {

inline constexpr std::uint32_t journal_version = 1;
inline constexpr std::size_t journal_header_bytes = 16;
/// A record of the most seats there can be, and room.
inline constexpr std::size_t journal_record_limit_bytes = std::size_t{256} << 20;

enum class journal_record : std::uint32_t { snapshot = 1, change = 2, blacklist = 3, sets = 4 };

std::vector<std::byte> journal_header();
/// Of a snapshot or a change.
std::vector<std::byte> journal_entry(journal_record type, const job_image& value);
/// Of a blacklist.
std::vector<std::byte> journal_entry(const std::vector<failed_host>& failed);

/// What a file comes to.
struct journal_content {
  std::optional<job_image> job; ///< none: nothing was written yet
  std::vector<failed_host> failed;
  std::size_t sound_bytes = 0; ///< from the start; what is behind them is torn
};

/// The error names the offset at which the file cannot be believed.
expected<journal_content> replay(std::span<const std::byte> file);

} // namespace farandole
