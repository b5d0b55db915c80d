// The names that events refer to, each stored once: a hash table of bounded size in memory that several processes may
// map. Threads add names without locks. Two threads that add the same name at the same moment may store it twice, which
// readers do not notice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace farandole {

/// Zero-filled memory is a valid, empty slot.
struct name_slot {
  std::atomic<std::uint32_t> state;  ///< 0: empty; 1: being written; 2: valid
  std::atomic<std::uint32_t> offset; ///< of the text in the byte area
  std::atomic<std::uint32_t> length; ///< in bytes
  std::atomic<std::uint32_t> hash;
};

/// At the start of the table.
struct name_table_header {
  std::atomic<std::uint32_t> used_bytes;
  std::atomic<std::uint32_t> used_slots;
  std::atomic<std::uint64_t> refused; ///< names that did not fit
};

/// A reference to a table in memory that must outlive it.
class name_table {
public:
  /// `slots`: a power of two of them.
  name_table(name_table_header& header, std::span<name_slot> slots, std::span<char> bytes)
      : header_(&header), slots_(slots), bytes_(bytes) {}

  /// The index of the name, which is added if it is new. 0 for an empty name, and if the table is full. `reserved`: the
  /// name may take the room that is kept from other names. Any thread; never waits.
  std::uint32_t intern(std::string_view name, bool reserved = false);
  /// Empty if there is no such name. Any thread. The text stays where it is.
  std::string_view at(std::uint32_t index) const;
  bool is_half_full() const {
    return header_->used_slots.load(std::memory_order_relaxed) >= slots_.size() / 2 ||
           header_->used_bytes.load(std::memory_order_relaxed) >= bytes_.size() / 2;
  }
  /// Number of names that did not fit.
  std::uint64_t refused() const { return header_->refused.load(std::memory_order_relaxed); }

private:
  std::uint32_t refuse();

  name_table_header* header_;
  std::span<name_slot> slots_;
  std::span<char> bytes_;
};

} // namespace farandole
