#include "messages/record/event_trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

/// Copies the facts about the process, which may change while they are copied.
void copy_facts(event_region_header& from, event_region_header& to) {
  const auto copy = [](auto& source, auto& target) {
    target.store(source.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(from.process, to.process);
  copy(from.attached, to.attached);
  copy(from.uses_counter, to.uses_counter);
  copy(from.rank, to.rank);
  copy(from.size, to.size);
  copy(from.local_rank, to.local_rank);
  copy(from.generation, to.generation);
  copy(from.job, to.job);
  copy(from.origin_ticks, to.origin_ticks);
  copy(from.origin_steady_ns, to.origin_steady_ns);
  copy(from.origin_system_ns, to.origin_system_ns);
  copy(from.ringless, to.ringless);
  for (std::size_t i = 0; i < from.host.size(); ++i)
    copy(from.host[i], to.host[i]);
  copy(from.clock_peer, to.clock_peer);
  copy(from.clock_offset_ns, to.clock_offset_ns);
  copy(from.clock_measured_ns, to.clock_measured_ns);
  copy(from.clock_drift_ppb, to.clock_drift_ppb);
  copy(from.clock_bound_ns, to.clock_bound_ns);
}

/// Events for which the file grows at once.
constexpr std::uint64_t reserved_events = 4096;

bool is_call(event_kind kind) {
  return kind == event_kind::submitted || kind == event_kind::published;
}

} // namespace

expected<event_trace> event_trace::begin(std::shared_ptr<event_region> source, descriptor file,
                                         const trace_bounds& bounds) {
  if (source->header().magic.load(std::memory_order_acquire) != event_region_magic)
    return error{error_kind::precondition, "the process has not called init()"};
  const event_region_layout layout{
      rounded_ring_events(static_cast<std::size_t>(bounds.bytes / sizeof(event)))};
  if (::ftruncate(file.get(), static_cast<off_t>(layout.bytes())) != 0 ||
      !allocate_at(file.get(), 0, layout.rings_offset()))
    return error{error_kind::unknown,
                 std::string("the file of the trace cannot be sized: ") + std::strerror(errno)};
  auto target = event_region::map(file.get(), layout.ring_events);
  if (!target)
    return target.error();
  return event_trace(std::move(source), std::move(*target), std::move(file), bounds);
}

event_trace::event_trace(std::shared_ptr<event_region> source, std::shared_ptr<event_region> target,
                         descriptor file, const trace_bounds& bounds)
    : source_(std::move(source)), target_(std::move(target)), file_(std::move(file)), bounds_(bounds),
      names_(event_region_layout::name_slots + 1), calls_(event_region_layout::name_slots + 1) {
  for (std::size_t i = 0; i < event_ring_limit; ++i)
    next_[i] = source_->ring(i).header().written.load(std::memory_order_acquire);
  auto& header = target_->header();
  header.version.store(event_region_version, std::memory_order_relaxed);
  header.ring_events.store(static_cast<std::uint32_t>(target_->layout().ring_events),
                           std::memory_order_relaxed);
  copy_facts(source_->header(), header);
  header.magic.store(event_region_magic, std::memory_order_release);
}

double event_trace::pull() {
  std::size_t most = 0;
  for (std::size_t i = 0; i < event_ring_limit && !has_ended(); ++i)
    most = std::max(most, pull_ring(i));
  copy_facts(source_->header(), target_->header());
  return static_cast<double>(most) / static_cast<double>(source_->layout().ring_events);
}

std::size_t event_trace::pull_ring(std::size_t index) {
  auto source = source_->ring(index);
  const auto excerpt = source.read(next_[index]);
  const auto count = static_cast<std::size_t>(excerpt.end - next_[index]);
  if (count == 0)
    return 0;
  next_[index] = excerpt.end;
  auto target = target_->ring(index);
  if (excerpt.dropped > 0) {
    dropped_ += excerpt.dropped;
    event gap{};
    gap.kind = event_kind::gap;
    gap.ticks = excerpt.events.empty() ? 0 : excerpt.events.front().ticks;
    gap.first = excerpt.dropped;
    write(index, gap);
  }
  for (auto entry : excerpt.events) {
    if (has_ended())
      break;
    entry.name = translated(entry.name);
    count_call(entry);
    write(index, entry);
  }
  if (reserved_[index] == 0)
    return count;
  // A ring that had no owner when the trace began may have one now.
  auto& from = source.header();
  auto& to = target.header();
  to.thread.store(from.thread.load(std::memory_order_relaxed), std::memory_order_relaxed);
  for (std::size_t i = 0; i < from.thread_name.size(); ++i)
    to.thread_name[i].store(from.thread_name[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  return count;
}

void event_trace::write(std::size_t index, event entry) {
  auto ring = target_->ring(index);
  // On some file systems, reading a page also needs room for it.
  const auto written = reserved_[index] == 0 ? 0 : ring.header().written.load(std::memory_order_relaxed);
  if (written == reserved_[index] && !reserve(index))
    return;
  ring.write(entry);
  ++events_;
  if (events_ * sizeof(event) >= bounds_.bytes || written + 1 == ring.capacity())
    is_full_ = true;
}

bool event_trace::reserve(std::size_t index) {
  const auto& layout = target_->layout();
  const auto end_of = [](std::uint64_t events) { return sizeof(event_ring_header) + events * sizeof(event); };
  const auto begin = reserved_[index] == 0 ? 0 : end_of(reserved_[index]);
  const auto events = std::min<std::uint64_t>(reserved_[index] + reserved_events, layout.ring_events);
  const bool grown = allocate_at(file_.get(), layout.ring_offset(index) + begin, end_of(events) - begin);
  if (grown)
    reserved_[index] = events;
  else
    problem_ = errno;
  return grown;
}

std::uint32_t event_trace::translated(std::uint32_t name) {
  if (name == 0 || name >= names_.size())
    return 0;
  if (names_[name] == 0)
    names_[name] = target_->names().intern(source_->names().at(name), true);
  return names_[name];
}

void event_trace::count_call(const event& entry) {
  if (entry.kind == event_kind::step)
    ++marked_steps_;
  if (bounds_.steps == 0 || entry.name == 0 || !is_call(entry.kind))
    return;
  const auto calls = ++calls_[entry.name];
  if (calls == 1)
    ++called_names_;
  if (calls == bounds_.steps + 1)
    ++recurred_names_;
}

bool event_trace::steps_passed() const {
  if (bounds_.steps == 0)
    return false;
  if (marked_steps_ > 0)
    return marked_steps_ > bounds_.steps; // the first mark ends a step that had begun before the trace
  return recurred_names_ > 0 && 2 * recurred_names_ >= called_names_;
}

void event_trace::finish(const record_copy& facts) {
  copy_facts(source_->header(), target_->header());
  target_->header().names.refused += source_->names().refused();
  write_facts(facts, target_->header().copy);
}

} // namespace farandole
