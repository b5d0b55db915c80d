#include "messages/record/packed_record.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "messages/record/event_region.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

// The stream: a head, and then parts until one has no bytes. Numbers are in the order of the processor, as in a record.
struct stream_head {
  std::array<char, 8> mark;
  std::uint64_t bytes; ///< of the record
};
struct part_head {
  std::uint64_t offset;
  std::uint64_t bytes; ///< at most part_limit
};
constexpr std::array<char, 8> stream_mark{'F', 'D', 'P', 'A', 'C', 'K', '0', '1'};
constexpr std::size_t part_limit = std::size_t{256} << 10;

struct closed_gzip {
  void operator()(gzFile stream) const { ::gzclose(stream); }
};
using gzip = std::unique_ptr<std::remove_pointer_t<gzFile>, closed_gzip>;

/// A stream on a file that remains open, from its beginning.
gzip open_stream(int file, const char* mode) {
  descriptor copy{::dup(file)};
  if (!copy || ::lseek(copy.get(), 0, SEEK_SET) != 0)
    return {};
  gzip stream(::gzdopen(copy.get(), mode));
  if (stream)
    copy.release();
  return stream;
}

error failed(const std::string& action) {
  return {error_kind::unknown, "a trace cannot be " + action + ": " + std::strerror(errno)};
}

error damaged(const std::string& reason) {
  return {error_kind::invalid_argument, "this is no complete trace: " + reason};
}

bool put(gzFile stream, const void* bytes, std::size_t count) {
  return count == 0 || ::gzwrite(stream, bytes, static_cast<unsigned>(count)) == static_cast<int>(count);
}

bool get(gzFile stream, void* bytes, std::size_t count) {
  return count == 0 || ::gzread(stream, bytes, static_cast<unsigned>(count)) == static_cast<int>(count);
}

} // namespace

error pack_record(int record, int packed) {
  const auto size = ::lseek(record, 0, SEEK_END);
  // Level 1: a record is packed while the job runs, and higher levels take several times as long.
  const auto stream = open_stream(packed, "wb1");
  if (size < 0 || !stream)
    return failed("packed");
  const stream_head head{stream_mark, static_cast<std::uint64_t>(size)};
  bool good = put(stream.get(), &head, sizeof head);
  std::vector<char> part(part_limit);
  for (off_t offset = ::lseek(record, 0, SEEK_DATA); good && offset >= 0 && offset < size;
       offset = ::lseek(record, offset, SEEK_DATA)) {
    const auto count = ::pread(record, part.data(), part.size(), offset);
    if (count <= 0)
      return failed("read");
    const part_head next{static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(count)};
    good = put(stream.get(), &next, sizeof next) &&
           put(stream.get(), part.data(), static_cast<std::size_t>(count));
    offset += count;
  }
  const part_head end{};
  good = good && put(stream.get(), &end, sizeof end) && ::gzflush(stream.get(), Z_FINISH) == Z_OK;
  return good ? error{} : failed("packed");
}

bool is_packed_record(int file) {
  // The mark of gzip.
  std::array<unsigned char, 2> mark{};
  return ::pread(file, mark.data(), mark.size(), 0) == static_cast<ssize_t>(mark.size()) && mark[0] == 0x1f &&
         mark[1] == 0x8b;
}

error unpack_record(int packed, int record) {
  const auto stream = open_stream(packed, "rb");
  if (!stream)
    return failed("read");
  stream_head head{};
  if (!get(stream.get(), &head, sizeof head) || head.mark != stream_mark)
    return damaged("it does not begin with the mark of one");
  if (head.bytes > unpacked_record_limit || !layout_of(static_cast<std::size_t>(head.bytes)))
    return damaged("its record has " + std::to_string(head.bytes) + " bytes");
  if (::ftruncate(record, static_cast<off_t>(head.bytes)) != 0)
    return failed("unpacked");
  std::vector<char> part(part_limit);
  // Parts ascend, so together they are no longer than the record.
  for (std::uint64_t end = 0;;) {
    part_head next{};
    if (!get(stream.get(), &next, sizeof next))
      return damaged("its end is missing");
    if (next.bytes == 0)
      break;
    if (next.bytes > part_limit || next.offset < end || next.offset > head.bytes - next.bytes)
      return damaged("a part lies outside of the record");
    if (!get(stream.get(), part.data(), static_cast<std::size_t>(next.bytes)))
      return damaged("its end is missing");
    if (!write_at(record, next.offset,
                  std::as_bytes(std::span(part)).first(static_cast<std::size_t>(next.bytes))))
      return failed("unpacked");
    end = next.offset + next.bytes;
  }
  // Reads the checksum.
  char after = 0;
  return ::gzread(stream.get(), &after, 1) == 0 ? error{}
                                                : damaged("its checksum is wrong, or its end is missing");
}

std::optional<std::int32_t> rank_in_packed_record(int packed) {
  const auto stream = open_stream(packed, "rb");
  stream_head head{};
  part_head first{};
  alignas(64) std::array<std::byte, sizeof(event_region_header)> bytes{};
  if (!stream || !get(stream.get(), &head, sizeof head) || head.mark != stream_mark ||
      !get(stream.get(), &first, sizeof first) || first.offset != 0 || first.bytes < bytes.size() ||
      !get(stream.get(), bytes.data(), bytes.size()))
    return std::nullopt;
  const auto rank =
      reinterpret_cast<event_region_header*>(bytes.data())->rank.load(std::memory_order_relaxed);
  return rank >= 0 ? std::optional(rank) : std::nullopt;
}

} // namespace farandole
