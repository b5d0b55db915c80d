// The file format of the journal. Pure functions: bytes in, values out.
//
//   file    = header record*
//   header  = "FARANDJL" version:u32 0:u32
//   record  = "FJRC" type:u32 size:u32 size_before:u32 body_before:u64 head:u64 body:u64 payload
//
// All numbers are little-endian. A checksum is the first eight bytes of a SHA-256: `head` covers the bytes of
// the record before `head`, and `body` covers the bytes of the record before `body`, and the payload.
// `size_before` and `body_before` repeat `size` and `body` of the previous record, and are 0 in the first. So
// the records form a hash chain: a missing or misplaced record is detected.
//
// Each record is appended by one write. A process that is killed during the write, or a machine that crashes
// before the record is synced, leaves a torn last record, which counts as never written. A bad record with a
// valid one behind it was not torn but damaged later, because it was complete when the next one was written.
// A `synced` mark follows each record that was synced, so that damage to the last of them is not taken for a
// torn end. Records behind a damaged one cannot be trusted: replay() returns the place of the damage and the
// content before it.
//
//   type 1  snapshot   a whole job (messages/wire/journal.capnp); replaces the job of all earlier records
//   type 2  change     the differences from the job of the earlier records
//   type 3  blacklist  all hosts that failed (messages/wire/blacklist.capnp); replaces earlier ones
//   type 4             reserved for the register of process sets
//   type 5  synced     no payload: all records before it were on disk when it was written
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
/// Large enough for a record with the maximum number of slots.
inline constexpr std::size_t journal_record_limit_bytes = std::size_t{256} << 20;

enum class journal_record : std::uint32_t { snapshot = 1, change = 2, blacklist = 3, sets = 4, synced = 5 };

std::vector<std::byte> journal_header();

/// Identifies the record that the next one follows.
struct journal_link {
  std::uint32_t size = 0;
  std::uint64_t body = 0;
};

/// Encodes records, each to be written behind the previous one.
class journal_writer {
public:
  /// For a new file.
  journal_writer() = default;
  explicit journal_writer(journal_link last) : last_(last) {}

  /// A snapshot or a change.
  std::vector<std::byte> entry(journal_record type, const job_image& value);
  /// A blacklist.
  std::vector<std::byte> entry(const std::vector<failed_host>& failed);
  std::vector<std::byte> synced();
  /// The last record encoded. A caller that truncates it from the file continues with the link before it.
  journal_link last() const { return last_; }

private:
  std::vector<std::byte> entry(journal_record type, std::span<const std::byte> payload);

  journal_link last_;
};

/// The place from which on a file cannot be trusted.
struct journal_damage {
  std::size_t offset = 0; ///< of the damaged record
  std::size_t record = 0; ///< its number, from 1
  std::string reason;
};

/// The content of a file, up to its damage if there is any.
struct journal_content {
  std::optional<job_image> job; ///< empty: the file has no snapshot
  std::vector<failed_host> failed;
  std::size_t sound_bytes = 0;          ///< valid prefix; the rest is torn or damaged
  journal_link last;                    ///< last record of the valid prefix
  std::optional<journal_damage> damage; ///< empty: the rest, if any, is torn
};

/// Fails only if the file is not a journal of this version.
expected<journal_content> replay(std::span<const std::byte> file);

} // namespace farandole
