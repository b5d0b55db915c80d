// A record's file in a form that takes less space: its parts that are not holes, compressed by zlib (gzip, RFC 1952).
#pragma once

#include <cstdint>
#include <optional>

#include "messages/values/error.hpp"

namespace farandole {

/// Greatest size of what a packed record may contain.
inline constexpr std::uint64_t unpacked_record_limit = std::uint64_t{2} << 30;

/// Packs the record in the file `record` into the empty file `packed`.
error pack_record(int record, int packed);

/// Whether the file begins as a packed record does. Only unpack_record() knows whether it is complete.
bool is_packed_record(int file);

/// Unpacks into the empty file `record`, which then has the layout of a record. `invalid_argument` if the file is damaged
/// or does not end. The contents of the record are not checked; read_event_record() does that.
error unpack_record(int packed, int record);

/// The global rank in the packed record; nothing if there is none.
std::optional<std::int32_t> rank_in_packed_record(int packed);

} // namespace farandole
