// Helpers for tests of membership: hellos, and elastic jobs that run already.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/membership.hpp"

namespace farandole {

inline hello from_slot(std::int32_t slot, std::int32_t size, const std::string& host = "a") {
  hello value;
  value.slot = slot;
  value.size = size;
  value.host = host;
  value.host_name = host;
  value.address = "127.0.0.1:" + std::to_string(5000 + std::int64_t{slot});
  return value;
}

/// The hello of a process that is recognised when it says hello again.
inline hello from_process(std::int32_t slot) {
  auto value = from_slot(slot, 1);
  value.process = 1000 + slot;
  return value;
}

/// The hello of a member that continues with a process set whose only member is in slot 1.
inline hello with_set_of_one(std::int32_t slot) {
  auto value = from_slot(slot, 1);
  value.keeps_sets = true;
  value.sets = {{{0, false, 0}, 1, {1}}};
  return value;
}

inline std::vector<std::int32_t> missing_slots(const membership& job) {
  std::vector<std::int32_t> slots;
  for (const auto& member : job.missing().missing)
    slots.push_back(member.slot);
  return slots;
}

/// A job of slots from 0 on, with routes 100 + slot; it may have `minimum` to `limit` members.
inline membership elastic_running(std::int32_t size, std::int32_t limit, std::int32_t minimum = 1,
                                  bool known_again = false) {
  membership job{{.size = size, .elastic = true, .minimum = minimum, .limit = limit}, 1};
  for (std::int32_t slot = 0; slot < size; ++slot) {
    job.expect(slot);
    job.join(static_cast<link_id>(100 + slot), known_again ? from_process(slot) : from_slot(slot, 1));
  }
  return job;
}

/// The slots of the generation that forms; empty if none does.
inline std::vector<std::int32_t> slots_of(const membership_decision& decision) {
  std::vector<std::int32_t> slots;
  if (!decision.admissions.empty())
    for (auto& member : decision.roster.members)
      slots.push_back(member.slot);
  return slots;
}

} // namespace farandole
