// Feeds arbitrary bytes as the file of an event record, of which a part follows the sound header of a small record. The
// reader must return a record within its bounds or an error, and the same again for the same bytes.
#include <cstring>
#include <vector>

#include "messages/record/event_kinds.hpp"
#include "messages/record/event_reader.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

void check(std::span<const std::byte> memory) {
  const auto record = read_event_record(memory);
  if (!record) {
    require(!record.error().text.empty());
    return;
  }
  require(record->threads.size() <= event_ring_limit);
  require(record->names.size() == event_region_layout::name_slots + 1 && record->names.front().empty());
  std::size_t name_bytes = 0;
  for (const auto& name : record->names)
    name_bytes += name.size();
  require(name_bytes <= event_region_layout::name_bytes);
  for (const auto& thread : record->threads) {
    require(thread.events.size() * sizeof(event) <= memory.size());
    for (const auto& entry : thread.events)
      static_cast<void>(record->name(entry.name).size() + (find_event_row(entry.kind) ? 1 : 0));
  }
  const auto again = read_event_record(memory);
  require(again && again->names == record->names && again->threads.size() == record->threads.size());
}

} // namespace

// The first byte chooses: the bytes as they are; or, in a record of 16 events in each ring, bytes at places that the input
// names: two bytes for the distance from the last place, one for the new value.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  const event_region_layout layout{16};
  const bool is_whole = data[0] % 2 == 0;
  // No longer than the file, so that the sanitizer notices a read beyond its end.
  std::vector<std::uint64_t> words(((is_whole ? input.size() : layout.bytes()) + 7) / 8);
  auto memory = std::as_writable_bytes(std::span(words));
  if (is_whole) {
    if (!input.empty())
      std::memcpy(memory.data(), input.data(), input.size());
    check(memory.first(input.size()));
    return 0;
  }
  memory = memory.first(layout.bytes());
  auto& header = *reinterpret_cast<event_region_header*>(memory.data());
  header.magic = event_region_magic;
  header.version = event_region_version;
  header.ring_events = 16;
  std::size_t place = 0;
  for (std::size_t i = 0; i + 3 <= input.size(); i += 3) {
    place += std::to_integer<std::size_t>(input[i]) + std::to_integer<std::size_t>(input[i + 1]) * 256;
    memory[place % memory.size()] = input[i + 2];
  }
  check(memory);
  return 0;
}
