// The memory of one process's event record: a header, the name table and the rings, at places that depend only on the
// header. A launcher creates it and passes it to the worker, so that it can be read while the worker is stopped or stuck,
// and after it has died. Zero-filled memory of the right size is an empty record that a process may take.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "messages/record/event_ring.hpp"
#include "messages/record/name_table.hpp"
#include "messages/record/tick_clock.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The number of rings: threads of one process that can record.
inline constexpr std::size_t event_ring_limit = 32;
/// Most events that a ring may hold.
inline constexpr std::size_t ring_events_limit = std::size_t{1} << 20;

/// What a process that copies the memory to a file adds to the copy. Zero in the memory itself.
struct event_copy_header {
  std::atomic<std::uint64_t> ticks; ///< time of the copy; 0: this is no copy
  std::atomic<std::int64_t> steady_ns;
  std::atomic<std::int64_t> system_ns;
  std::atomic<std::int32_t> slot;         ///< of the worker, in its launcher
  std::atomic<std::int32_t> process;      ///< its id on its host; 0: not known
  std::atomic<std::uint32_t> told_to_end; ///< 1: the launcher had told the process to end
  std::atomic<char> state; ///< of the running process: a letter of /proc/PID/stat; 0: not known
  std::array<std::atomic<char>, 128> ending; ///< how the process ended; ends with 0
};

/// Facts about the process, for readers. The process writes them when it takes the memory and when it enters a
/// generation; a reader may see those of two generations mixed.
struct event_region_header {
  std::atomic<std::uint64_t> magic; ///< written last
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint32_t> ring_events; ///< slots of each ring
  std::atomic<std::uint32_t>
      process; ///< process id in the process's own namespace; 0: none has taken the memory
  std::atomic<std::uint32_t> attached; ///< 1 while a runtime of the process writes
  std::atomic<std::uint32_t> uses_counter;
  std::atomic<std::int32_t> rank;
  std::atomic<std::int32_t> size;
  std::atomic<std::int32_t> local_rank;
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> job; ///< hash of the job's identity: the same on all of its members
  std::atomic<std::uint64_t> origin_ticks;
  std::atomic<std::int64_t> origin_steady_ns;
  std::atomic<std::int64_t> origin_system_ns;
  std::atomic<std::uint64_t> ringless;    ///< events of threads for which there was no ring
  std::array<std::atomic<char>, 64> host; ///< ends with 0
  /// How far the clock of another member is ahead, for readers that compare members; see recorded_clock.
  std::atomic<std::int64_t> clock_bound_ns; ///< 0: not measured, or being written
  std::atomic<std::int64_t> clock_offset_ns;
  std::atomic<std::int64_t> clock_measured_ns;
  std::atomic<std::int64_t> clock_drift_ppb;
  std::atomic<std::int32_t> clock_peer;
  std::atomic<std::uint64_t> process_start; ///< of the process, in ticks since the boot
  std::byte padding[48];
  name_table_header names;
  event_copy_header copy;
};

inline constexpr std::uint64_t event_region_magic = 0x3144524356454446; // "FDEVCRD1"
inline constexpr std::uint32_t event_region_version = 1;

/// Where the parts are.
struct event_region_layout {
  std::size_t ring_events; ///< a power of two

  static constexpr std::size_t name_slots = 8192;
  static constexpr std::size_t name_bytes = std::size_t{256} << 10;
  static constexpr std::size_t header_bytes = 512;

  std::size_t ring_bytes() const { return sizeof(event_ring_header) + ring_events * sizeof(event); }
  std::size_t rings_offset() const { return header_bytes + name_slots * sizeof(name_slot) + name_bytes; }
  std::size_t bytes() const { return rings_offset() + event_ring_limit * ring_bytes(); }
  std::size_t ring_offset(std::size_t index) const { return rings_offset() + index * ring_bytes(); }
};
static_assert(sizeof(event_region_header) <= event_region_layout::header_bytes);

/// Shared mapped memory. Its pages exist only once they are touched, except those of open().
class event_region {
public:
  /// For a launcher: a file without a name, of the size for `ring_events` events in each ring.
  static expected<descriptor> create(std::size_t ring_events);
  /// Memory of this process alone.
  static expected<std::shared_ptr<event_region>> anonymous(std::size_t ring_events);
  /// Maps the memory behind `file`, which keeps its owner. `invalid_argument` if it has not the right size.
  static expected<std::shared_ptr<event_region>> map(int file, std::size_t ring_events);
  /// Creates the file, or takes over an existing one of the right size.
  static expected<std::shared_ptr<event_region>> open(const std::string& path, std::size_t ring_events);

  ~event_region();
  event_region(const event_region&) = delete;
  event_region& operator=(const event_region&) = delete;

  const event_region_layout& layout() const { return layout_; }
  event_region_header& header() const;
  name_table names() const;
  event_ring ring(std::size_t index) const;
  std::span<const std::byte> bytes() const { return {base_, layout_.bytes()}; }

private:
  event_region(std::byte* base, const event_region_layout& layout) : base_(base), layout_(layout) {}
  static expected<std::shared_ptr<event_region>> mapped(int file, int flags, std::size_t ring_events);

  std::byte* base_;
  event_region_layout layout_;
};

/// `ring_events`, rounded up to a power of two.
std::size_t rounded_ring_events(std::size_t ring_events);

/// The layout of memory or a file of this size; nothing if no layout has it.
std::optional<event_region_layout> layout_of(std::size_t bytes);

} // namespace farandole
