#include "messages/record/event_recorder.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "messages/record/stored_text.hpp"

namespace farandole {

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint32_t this_thread() {
  return static_cast<std::uint32_t>(::syscall(SYS_gettid));
}

/// Field 22 of /proc/self/stat; 0 if it is not known.
std::uint64_t start_of_this_process() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.erase(0, text.rfind(')') + 1)); // the name may contain anything
  std::uint64_t start = 0;
  for (int field = 3; field < 22; ++field)
    fields >> text;
  fields >> start;
  return start;
}

/// Whether a thread of this process has ended.
bool is_dead(std::uint32_t thread) {
  return ::syscall(SYS_tgkill, ::getpid(), static_cast<int>(thread), 0) != 0 && errno == ESRCH;
}

/// The ring that this thread used last, and of which recorder.
struct cached_ring {
  std::uint64_t serial = 0;
  event_ring* ring = nullptr;
};
thread_local cached_ring cached;

} // namespace

// Only this process may write into the memory once it has taken it. A child that was forked inherits the mapping, but
// not the runtime.
event_recorder::event_recorder(std::shared_ptr<event_region> region, tick_clock clock)
    : serial_(next_serial()), region_(std::move(region)), clock_(clock) {
  if (!region_)
    return;
  auto& header = region_->header();
  const auto me = static_cast<std::uint32_t>(::getpid());
  const auto start = start_of_this_process();
  // A process that was killed leaves its mark behind. In a container, the next one may have the same id.
  const bool inherited = header.process.load(std::memory_order_acquire) != me ||
                         header.process_start.load(std::memory_order_relaxed) != start;
  if (header.attached.exchange(1, std::memory_order_acq_rel) != 0 && !inherited) {
    region_.reset();
    return;
  }
  if (inherited)
    for (std::size_t i = 0; i < event_ring_limit; ++i)
      region_->ring(i).header().thread.store(0, std::memory_order_relaxed);
  rings_.reserve(event_ring_limit);
  for (std::size_t i = 0; i < event_ring_limit; ++i)
    rings_.push_back(region_->ring(i));
  const auto origin = clock_.read();
  header.version.store(event_region_version, std::memory_order_relaxed);
  header.ring_events.store(static_cast<std::uint32_t>(region_->layout().ring_events),
                           std::memory_order_relaxed);
  header.process_start.store(start, std::memory_order_relaxed);
  header.process.store(me, std::memory_order_relaxed);
  header.uses_counter.store(clock_.uses_counter() ? 1 : 0, std::memory_order_relaxed);
  header.rank.store(-1, std::memory_order_relaxed);
  header.origin_ticks.store(origin.ticks, std::memory_order_relaxed);
  header.origin_steady_ns.store(origin.steady.count(), std::memory_order_relaxed);
  header.origin_system_ns.store(origin.system.count(), std::memory_order_relaxed);
  header.magic.store(event_region_magic, std::memory_order_release);
}

event_recorder::~event_recorder() {
  if (region_)
    region_->header().attached.store(0, std::memory_order_release);
}

void event_recorder::describe(const recorded_member& member) {
  if (!region_)
    return;
  auto& header = region_->header();
  header.job.store(member.job, std::memory_order_relaxed);
  header.generation.store(member.generation, std::memory_order_relaxed);
  header.rank.store(member.rank, std::memory_order_relaxed);
  header.size.store(member.size, std::memory_order_relaxed);
  header.local_rank.store(member.local_rank, std::memory_order_relaxed);
  store_text(header.host, member.host);
  header.clock_bound_ns.store(0, std::memory_order_relaxed);
}

// A reader that finds the same bound before and after the other fields has read those of one measurement, or of two with
// the same bound.
void event_recorder::describe(const recorded_clock& clock) {
  if (!region_)
    return;
  auto& header = region_->header();
  header.clock_bound_ns.store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  header.clock_peer.store(clock.peer, std::memory_order_relaxed);
  header.clock_offset_ns.store(clock.offset.count(), std::memory_order_relaxed);
  header.clock_measured_ns.store(clock.measured.count(), std::memory_order_relaxed);
  header.clock_drift_ppb.store(clock.drift_parts_per_billion, std::memory_order_relaxed);
  header.clock_bound_ns.store(clock.bound.count(), std::memory_order_release);
}

std::uint32_t event_recorder::intern(std::string_view name) {
  constexpr std::string_view mark = ".noname"; // see unnamed_calls
  if (!region_)
    return 0;
  auto names = region_->names();
  if (const auto at = name.find(mark); at != std::string_view::npos && names.is_half_full())
    name = name.substr(0, at + mark.size());
  return names.intern(name);
}

event_ring* event_recorder::ring_of_this_thread() noexcept {
  if (cached.serial != serial_)
    cached = {serial_, claim_ring()};
  return cached.ring;
}

// A thread that recorded for an earlier runtime of this process gets its ring back. A ring whose thread has ended is
// taken over only if no ring is free, so that the events of ended threads last.
event_ring* event_recorder::claim_ring() noexcept {
  const auto me = this_thread();
  const auto owner = [](event_ring& ring) { return ring.header().thread.load(std::memory_order_relaxed); };
  const auto take = [&](event_ring& ring, std::uint32_t from) {
    return ring.header().thread.compare_exchange_strong(from, me, std::memory_order_acq_rel);
  };
  for (auto& ring : rings_)
    if (owner(ring) == me)
      return &ring;
  auto* claimed = static_cast<event_ring*>(nullptr);
  for (auto& ring : rings_)
    if (!claimed && owner(ring) == 0 && take(ring, 0))
      claimed = &ring;
  for (auto& ring : rings_)
    if (const auto thread = owner(ring); !claimed && thread != 0 && is_dead(thread) && take(ring, thread))
      claimed = &ring;
  if (!claimed) {
    region_->header().ringless.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  store_text(claimed->header().thread_name, name);
  return claimed;
}

void event_recorder::wake_sleeping_reader() noexcept {
  if (reader_sleeps_.exchange(0, std::memory_order_acq_rel) != 0)
    ::syscall(SYS_futex, &reader_sleeps_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A thread that records stores the event first and then loads the word, and the processor may reorder the two. The
// barrier that this would need on every event is executed here instead, for all threads of the process: afterwards each
// of them has either published its event, or sees the word.
bool event_recorder::announce_sleep() {
  reader_sleeps_.store(1, std::memory_order_seq_cst);
  static const bool registered =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered && ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void event_recorder::sleep(std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(longest);
  const timespec time{seconds.count(), (longest - seconds).count()};
  ::syscall(SYS_futex, &reader_sleeps_, FUTEX_WAIT_PRIVATE, 1, &time, nullptr, 0);
  reader_sleeps_.store(0, std::memory_order_relaxed);
}

} // namespace farandole
