// Writes the event record of one runtime. Each thread writes into its own ring; a write takes neither a lock nor memory
// nor a system call, except for the first one of a thread, which looks for a free ring.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "messages/record/event_kinds.hpp"
#include "messages/record/event_region.hpp"
#include "messages/record/tick_clock.hpp"

namespace farandole {

/// The process, for readers of its record.
struct recorded_member {
  std::uint64_t job = 0; ///< hash of the job's identity
  std::uint64_t generation = 0;
  std::int32_t rank = -1;
  std::int32_t size = 0;
  std::int32_t local_rank = -1;
  std::string host;
};

/// The steady clock of another member on another host, as measured from this one.
struct recorded_clock {
  std::int32_t peer = -1;                   ///< rank of the other member
  std::chrono::nanoseconds offset{0};       ///< its clock minus that of this member, at `measured`
  std::chrono::nanoseconds bound{0};        ///< the true offset differs by at most as much; positive
  std::chrono::nanoseconds measured{0};     ///< by the steady clock of this member
  std::int64_t drift_parts_per_billion = 0; ///< growth of the offset

  friend bool operator==(const recorded_clock&, const recorded_clock&) = default;
};

/// Thread-safe. Without memory it records nothing.
class event_recorder {
public:
  /// Takes the memory. If another runtime of this process writes into it, nothing is recorded. Null: nothing is recorded.
  explicit event_recorder(std::shared_ptr<event_region> region,
                          tick_clock clock = tick_clock::of_this_host());
  ~event_recorder();
  event_recorder(const event_recorder&) = delete;
  event_recorder& operator=(const event_recorder&) = delete;

  bool records() const { return region_ != nullptr; }
  const std::shared_ptr<event_region>& region() const { return region_; }
  const tick_clock& clock() const { return clock_; }
  /// This member has entered a generation.
  void describe(const recorded_member& member);
  /// The clock of another member was measured. For one thread.
  void describe(const recorded_clock& clock);

  /// Whether events of detailed kinds are wanted: by a reader that has called detailed(true), and not yet detailed(false).
  bool detailed() const { return detailed_.load(std::memory_order_relaxed) != 0; }
  void detailed(bool wanted) { detailed_.fetch_add(wanted ? 1 : -1, std::memory_order_relaxed); }

  /// The index of a name, for event::name. Once half of the table is full, calls without a name, which are numbered, are
  /// recorded without their numbers. Never waits.
  std::uint32_t intern(std::string_view name);
  /// The same for a text that explains a failure: the table keeps room for such texts.
  std::uint32_t intern_reason(std::string_view reason) {
    return region_ ? region_->names().intern(reason, true) : 0;
  }

  /// Writes an event of the calling thread, at the present time.
  void record(event_kind kind, std::uint32_t name, std::uint32_t set, std::uint8_t detail = 0,
              std::uint64_t first = 0, std::uint64_t second = 0) noexcept {
    if (!region_)
      return;
    if (auto* ring = ring_of_this_thread()) {
      ring->write({clock_.now(), name, static_cast<std::uint16_t>(set), kind, detail, first, second});
      wake_reader();
    }
  }

  /// For the one thread that follows the record: announces that it is about to sleep. It must then read the rings once
  /// more, and call sleep() only if there is nothing new. Returns false if the kernel cannot guarantee that no event is
  /// missed; sleep() must then be short.
  bool announce_sleep();
  /// Sleeps until an event is written after announce_sleep(), wake() is called, or the time is over.
  void sleep(std::chrono::nanoseconds longest);
  void wake() noexcept { wake_sleeping_reader(); }

private:
  event_ring* ring_of_this_thread() noexcept;
  event_ring* claim_ring() noexcept;
  void wake_reader() noexcept {
    if (reader_sleeps_.load(std::memory_order_relaxed) != 0)
      wake_sleeping_reader();
  }
  void wake_sleeping_reader() noexcept;

  const std::uint64_t serial_; ///< distinguishes the recorders of a process, also those that are gone
  std::shared_ptr<event_region> region_;
  tick_clock clock_;
  std::vector<event_ring> rings_;               ///< references to the rings of the region
  std::atomic<int> detailed_{0};                ///< readers
  std::atomic<std::uint32_t> reader_sleeps_{0}; ///< 1: the follower sleeps, or is about to
};

} // namespace farandole
