#include "messages/record/event_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

error failed(const std::string& action) {
  return {error_kind::unknown, "the event record: " + action + ": " + std::strerror(errno)};
}

} // namespace

std::size_t rounded_ring_events(std::size_t ring_events) {
  return std::bit_ceil(std::clamp<std::size_t>(ring_events, 16, ring_events_limit));
}

std::optional<event_region_layout> layout_of(std::size_t bytes) {
  for (std::size_t ring_events = 1; ring_events <= ring_events_limit; ring_events *= 2)
    if (const event_region_layout layout{ring_events}; layout.bytes() == bytes)
      return layout;
  return std::nullopt;
}

expected<descriptor> event_region::create(std::size_t ring_events) {
  descriptor file(::memfd_create("farandole-events", MFD_CLOEXEC));
  if (!file)
    return failed("memory for it cannot be made");
  const event_region_layout layout{rounded_ring_events(ring_events)};
  if (::ftruncate(file.get(), static_cast<off_t>(layout.bytes())) != 0)
    return failed("memory for it cannot be sized");
  return file;
}

expected<std::shared_ptr<event_region>> event_region::mapped(int file, int flags, std::size_t ring_events) {
  const event_region_layout layout{rounded_ring_events(ring_events)};
  void* base = ::mmap(nullptr, layout.bytes(), PROT_READ | PROT_WRITE, flags, file, 0);
  if (base == MAP_FAILED)
    return failed("its memory cannot be mapped");
  return std::shared_ptr<event_region>(new event_region(static_cast<std::byte*>(base), layout));
}

expected<std::shared_ptr<event_region>> event_region::anonymous(std::size_t ring_events) {
  return mapped(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ring_events);
}

expected<std::shared_ptr<event_region>> event_region::map(int file, std::size_t ring_events) {
  const event_region_layout layout{rounded_ring_events(ring_events)};
  struct stat status {};
  if (::fstat(file, &status) != 0)
    return failed("its file cannot be examined");
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) != layout.bytes())
    return error{error_kind::invalid_argument, "the event record: its file has " +
                                                   std::to_string(status.st_size) + " bytes instead of " +
                                                   std::to_string(layout.bytes())};
  return mapped(file, MAP_SHARED, ring_events);
}

expected<std::shared_ptr<event_region>> event_region::open(const std::string& path, std::size_t ring_events) {
  const event_region_layout layout{rounded_ring_events(ring_events)};
  const descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file)
    return failed(path + " cannot be opened");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return failed(path + " cannot be examined");
  const auto bytes = static_cast<off_t>(layout.bytes());
  if ((status.st_size != 0 && status.st_size != bytes) || allocate_at(file.get(), 0, layout.bytes()))
    return map(file.get(), ring_events);
  auto problem =
      failed(path + " cannot be sized; FARANDOLE_RECORDER_FILE can name a file on a disk with room for " +
             std::to_string(bytes) + " bytes");
  // The next process must find no file of another size.
  [[maybe_unused]] const bool emptied = status.st_size != 0 || ::ftruncate(file.get(), 0) == 0;
  return problem;
}

event_region::~event_region() {
  ::munmap(base_, layout_.bytes());
}

event_region_header& event_region::header() const {
  return *reinterpret_cast<event_region_header*>(base_);
}

name_table event_region::names() const {
  std::byte* slots = base_ + event_region_layout::header_bytes;
  std::byte* bytes = slots + event_region_layout::name_slots * sizeof(name_slot);
  return {header().names,
          {reinterpret_cast<name_slot*>(slots), event_region_layout::name_slots},
          {reinterpret_cast<char*>(bytes), event_region_layout::name_bytes}};
}

event_ring event_region::ring(std::size_t index) const {
  std::byte* start = base_ + layout_.ring_offset(index);
  return {*reinterpret_cast<event_ring_header*>(start),
          {reinterpret_cast<event_words*>(start + sizeof(event_ring_header)), layout_.ring_events}};
}

} // namespace farandole
