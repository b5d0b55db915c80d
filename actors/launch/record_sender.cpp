#include "actors/launch/record_sender.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "messages/wire/records.hpp"

namespace farandole {

namespace {

expected<descriptor> copy_of(const held_record& record) {
  descriptor copy{::memfd_create("farandole-record", MFD_CLOEXEC)};
  if (!copy)
    return error{error_kind::unknown, std::string("a record cannot be copied: ") + std::strerror(errno)};
  if (auto problem = record.copy_to(copy.get()))
    return problem;
  return copy;
}

} // namespace

record_sender::record_sender(std::uint32_t request, std::vector<held_record> records) : request_(request) {
  if (!std::ranges::any_of(records, &held_record::has_content))
    return;
  for (auto& record : records)
    files_.push_back({record.ending.slot, [record = std::move(record)] { return copy_of(record); }});
}

record_sender::record_sender(std::uint32_t request, written_traces traces) : request_(request) {
  for (auto& trace : traces.traces)
    files_.push_back({trace.slot, [file = std::make_shared<descriptor>(std::move(trace.file))] {
                        return expected<descriptor>(std::move(*file));
                      }});
  for (const auto& problem : traces.problems)
    problem_ += (problem_.empty() ? "" : "; ") + problem;
}

std::optional<envelope> record_sender::next() {
  while (open_ || open_next_file())
    if (auto part = next_part())
      return part;
  if (std::exchange(sent_, true))
    return std::nullopt;
  return encode(records_sent{request_, problem_});
}

bool record_sender::open_next_file() {
  while (!files_.empty()) {
    const auto next = std::move(files_.front());
    files_.pop_front();
    auto opened = next.open();
    if (!opened) {
      problem_ = opened.error().text;
      continue;
    }
    open_ = std::move(*opened);
    slot_ = next.slot;
    offset_ = 0;
    return true;
  }
  return false;
}

/// The next bytes from the first one that is not in a hole. The last byte of the file is sent even if it is in a hole,
/// because it gives the file its size.
std::optional<envelope> record_sender::next_part() {
  const auto size = static_cast<std::uint64_t>(::lseek(open_.get(), 0, SEEK_END));
  if (offset_ >= size) {
    open_ = {};
    return std::nullopt;
  }
  const auto data = ::lseek(open_.get(), static_cast<off_t>(offset_), SEEK_DATA);
  const auto begin = data < 0 ? size - 1 : static_cast<std::uint64_t>(data);
  record_part part{request_, slot_, begin,
                   std::string(std::min<std::uint64_t>(size - begin, most_record_part_bytes), '\0')};
  const auto count = ::pread(open_.get(), part.bytes.data(), part.bytes.size(), static_cast<off_t>(begin));
  if (count <= 0) {
    problem_ = std::string("a record cannot be read: ") + std::strerror(errno);
    open_ = {};
    return std::nullopt;
  }
  part.bytes.resize(static_cast<std::size_t>(count));
  offset_ = begin + part.bytes.size();
  if (offset_ < size)
    part.bytes.resize(part.bytes.find_last_not_of('\0') + 1);
  return encode(part);
}

} // namespace farandole
