#include "messages/record/name_table.hpp"

#include <algorithm>

namespace farandole {

namespace {

constexpr std::uint32_t empty = 0;
constexpr std::uint32_t being_written = 1;
constexpr std::uint32_t valid = 2;

// FNV-1a, 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

} // namespace

// A slot that another thread is writing is skipped, because its writer may have been stopped. A quarter of the slots stays
// empty, so that probes stay short; reserved names may take half of it.
std::uint32_t name_table::intern(std::string_view name, bool reserved) {
  if (name.empty())
    return 0;
  const auto slot_limit = slots_.size() / 8 * (reserved ? 7 : 6);
  const auto byte_limit = reserved ? bytes_.size() : bytes_.size() / 16 * 15;
  const auto hash = hash_of(name);
  for (std::size_t probe = 0; probe < slots_.size(); ++probe) {
    const auto index = static_cast<std::uint32_t>((hash + probe) & (slots_.size() - 1));
    auto& slot = slots_[index];
    auto state = slot.state.load(std::memory_order_acquire);
    if (state == valid && slot.hash.load(std::memory_order_relaxed) == hash && at(index + 1) == name)
      return index + 1;
    if (state != empty)
      continue;
    if (header_->used_slots.load(std::memory_order_relaxed) >= slot_limit ||
        header_->used_bytes.load(std::memory_order_relaxed) + name.size() > byte_limit)
      return refuse();
    if (!slot.state.compare_exchange_strong(state, being_written, std::memory_order_relaxed))
      continue;
    header_->used_slots.fetch_add(1, std::memory_order_relaxed);
    const auto offset =
        header_->used_bytes.fetch_add(static_cast<std::uint32_t>(name.size()), std::memory_order_relaxed);
    // The slot stays invalid if other threads have filled the bytes meanwhile.
    if (offset > bytes_.size() || name.size() > bytes_.size() - offset)
      return refuse();
    std::copy(name.begin(), name.end(), bytes_.begin() + offset);
    slot.offset.store(offset, std::memory_order_relaxed);
    slot.length.store(static_cast<std::uint32_t>(name.size()), std::memory_order_relaxed);
    slot.hash.store(hash, std::memory_order_relaxed);
    slot.state.store(valid, std::memory_order_release);
    return index + 1;
  }
  return refuse();
}

std::uint32_t name_table::refuse() {
  header_->refused.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

// Another process may have damaged the memory, so the bounds are checked here.
std::string_view name_table::at(std::uint32_t index) const {
  if (index == 0 || index > slots_.size())
    return {};
  const auto& slot = slots_[index - 1];
  if (slot.state.load(std::memory_order_acquire) != valid)
    return {};
  const auto offset = slot.offset.load(std::memory_order_relaxed);
  const auto length = slot.length.load(std::memory_order_relaxed);
  if (offset > bytes_.size() || length > bytes_.size() - offset)
    return {};
  return {bytes_.data() + offset, length};
}

} // namespace farandole
