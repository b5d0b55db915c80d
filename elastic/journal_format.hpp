// How a journal lies in its file. Pure: bytes in, values out.
//
//   file    = header record*
//   header  = "FARANDJL" version:u32 0:u32
//   record  = "FJRC" type:u32 size:u32 size_before:u32 body_before:u64 head:u64 body:u64 payload
//
// All numbers are little-endian. `head` is the checksum of what stands before it, `body` that of all before
// it and of the payload: the first eight bytes of their SHA-256. `size_before` and `body_before` are those of
// the record before, 0 in the first. So each `body` covers all that came before, and no record can be missing
// in between, or stand in another place, without notice.
//
// Records are appended, each by one write. Whoever is killed at that, or whose machine ends before the record
// was synced, leaves a torn last record: it counts as never written. A bad record with a sound one behind it
// was not torn but has been damaged since, for it was whole when the other was written. Behind each record
// that was synced stands a `synced` mark, so that damage to the last of them is not taken for a torn end.
// What is behind a damaged record cannot be believed: replay() says where it is and what was sound before.
//
//   type 1  snapshot   a whole job (messages/wire/journal.capnp); what came before it is forgotten
//   type 2  change     what is different in the job since
//   type 3  blacklist  all hosts that failed (messages/wire/blacklist.capnp), in place of those of earlier ones
//   type 4             kept free for the register of process sets
//   type 5  synced     empty: all before it was on the disk when it was written
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/failed_host.hpp"
#include "messages/wire/job_image.hpp"

namespace farandole {

inline constexpr std::uint32_t journal_version = 2;
inline constexpr std::size_t journal_header_bytes = 16;
/// A record of the most seats there can be, and room.
inline constexpr std::size_t journal_record_limit_bytes = std::size_t{256} << 20;

enum class journal_record : std::uint32_t { snapshot = 1, change = 2, blacklist = 3, sets = 4, synced = 5 };

std::vector<std::byte> journal_header();

/// The record that a new one is to follow.
struct journal_link {
  std::uint32_t size = 0;
  std::uint64_t body = 0;
};

/// Makes records, each to be written behind the one before.
class journal_writer {
public:
  /// As if nothing had been written: for a new file.
  journal_writer() = default;
  explicit journal_writer(journal_link last) : last_(last) {}

  /// A snapshot or a change.
  std::vector<std::byte> entry(journal_record type, const job_image& value);
  /// A blacklist.
  std::vector<std::byte> entry(const std::vector<failed_host>& failed);
  std::vector<std::byte> synced();
  /// The last one made. Whoever cuts it off again goes on from the link before.
  journal_link last() const { return last_; }

private:
  std::vector<std::byte> entry(journal_record type, std::span<const std::byte> payload);

  journal_link last_;
};

/// Where a file cannot be believed any more.
struct journal_damage {
  std::size_t offset = 0; ///< of the record
  std::size_t record = 0; ///< its number, from 1
  std::string reason;
};

/// What a file comes to, up to its damage if it has any.
struct journal_content {
  std::optional<job_image> job; ///< none: nothing was written yet
  std::vector<failed_host> failed;
  std::size_t sound_bytes = 0;          ///< from the start; what is behind them is torn, or damaged
  journal_link last;                    ///< of them
  std::optional<journal_damage> damage; ///< none: what is behind them, if anything, is torn
};

/// The error says why the file is no journal of this version at all.
expected<journal_content> replay(std::span<const std::byte> file);

} // namespace farandole
