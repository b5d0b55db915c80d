#include "actors/member/member_record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "collectives/transport/connections/tls.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

namespace {

// A timeline needs a record even if the record is disabled.
constexpr std::size_t timeline_ring_events = 4096;

// If two runtimes of one process were given the same memory, the second one gets memory of its own.
std::shared_ptr<event_recorder> recorder_in(std::shared_ptr<event_region> region, std::size_t ring_events) {
  auto recorder = std::make_shared<event_recorder>(std::move(region));
  if (recorder->records())
    return recorder;
  auto own = event_region::anonymous(ring_events);
  return std::make_shared<event_recorder>(own ? *own : nullptr);
}

// Processes that this one starts inherit the variable, but must not write into the record of this one. They find the
// descriptor closed, or another file under its number, and keep a record of their own. The variable stays, because a later
// runtime of this process continues the record.
expected<std::shared_ptr<event_region>> region_for(const settings& values, std::size_t ring_events) {
  if (const auto& path = values.text(setting::recorder_file); !path.empty())
    return event_region::open(path, ring_events);
  if (const auto number = static_cast<int>(values.integer(setting::recorder_descriptor)); number >= 0)
    if (auto region = event_region::map(number, ring_events)) {
      ::fcntl(number, F_SETFD, FD_CLOEXEC);
      return region;
    }
  return event_region::anonymous(ring_events);
}

} // namespace

std::shared_ptr<event_recorder> open_event_recorder(const settings& values, std::string& problem) {
  const auto ring_events = static_cast<std::size_t>(values.integer(setting::recorder_events));
  if (ring_events == 0 && values.text(setting::timeline).empty())
    return std::make_shared<event_recorder>(nullptr);
  if (ring_events == 0)
    return recorder_in(nullptr, timeline_ring_events);
  auto region = region_for(values, ring_events);
  if (!region) {
    problem = region.error().text;
    region = event_region::anonymous(ring_events);
  }
  return recorder_in(region ? *region : nullptr, ring_events);
}

std::uint64_t recorded_job(const std::string& secret) {
  if (secret.empty())
    return 0;
  std::array<unsigned char, 32> key{};
  derive_key({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()},
             "farandole event record, version 1", key);
  std::uint64_t number = 0;
  std::memcpy(&number, key.data(), sizeof number);
  return number;
}

void record_generation_begin(const shared_member_state& shared, const std::string& secret) {
  const auto& me = shared.members[static_cast<std::size_t>(shared.rank)];
  const auto size = static_cast<std::int32_t>(shared.members.size());
  shared.recorder->describe(
      {recorded_job(secret), shared.generation, shared.rank, size, me.local_rank, me.host_name});
  shared.recorder->record(
      event_kind::generation_begin, 0, 0, 0, shared.generation,
      pair_field(static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(shared.rank)));
}

void record_generation_end(const shared_member_state& shared, const error& reason) {
  shared.recorder->record(event_kind::generation_end, shared.recorder->intern_reason(reason.text), 0,
                          static_cast<std::uint8_t>(reason.kind), shared.generation);
}

void record_regroup(const shared_member_state& shared, regroup_phase phase, std::uint64_t generation) {
  shared.recorder->record(event_kind::regroup, 0, 0, static_cast<std::uint8_t>(phase), generation);
}

std::uint64_t recorded_generation(const shared_member_state& shared) {
  return shared.recorder->records()
             ? shared.recorder->region()->header().generation.load(std::memory_order_relaxed)
             : 0;
}

} // namespace farandole
