// A record as bytes that a test may damage.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "messages/record/event_region.hpp"

namespace farandole {

class record_bytes {
public:
  explicit record_bytes(const event_region& region)
      : words_((region.bytes().size() + 7) / 8), size_(region.bytes().size()) {
    std::memcpy(words_.data(), region.bytes().data(), size_);
  }

  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)).first(size_); }
  event_region_header& header() { return *reinterpret_cast<event_region_header*>(words_.data()); }
  name_slot& name(std::size_t index) {
    return reinterpret_cast<name_slot*>(bytes().data() + event_region_layout::header_bytes)[index];
  }

private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

} // namespace farandole
