// Records of ranks, made by hand with times in milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "messages/record/event_kinds.hpp"
#include "messages/record/event_reader.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"
#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

/// The record of one rank. Its thread 0 belongs to the caller, 1 to the event loop, 2 to a lane.
class made_record {
public:
  static constexpr std::chrono::seconds start{1'700'000'000};

  made_record(std::int32_t rank, std::int32_t size, std::uint64_t generation = 1) {
    record_.member = {7, generation, rank, size, rank, "alpha"};
    record_.process = 100 + static_cast<std::uint32_t>(rank);
    record_.origin = {0, std::chrono::nanoseconds(0), start};
    record_.names = {""};
    record_.threads = {{"caller", 1, {}, 0}, {"loop", 2, {}, 0}, {"lane", 3, {}, 0}};
    if (rank >= 0)
      enter(0, generation, rank, size);
  }

  made_record& enter(std::uint64_t ms, std::uint64_t generation, std::int32_t rank, std::int32_t size) {
    return add(1, ms, event_kind::generation_begin, 0, 0, generation,
               pair_field(static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(rank)));
  }
  made_record& call(std::uint64_t ms, const std::string& tensor, std::uint64_t bytes = 16,
                    operation requested = operation::allreduce, std::uint16_t set = 0) {
    return add(0, ms, event_kind::submitted, name(tensor), static_cast<std::uint8_t>(requested), bytes, 0,
               set);
  }
  made_record& wait(std::uint64_t ms, const std::string& tensor, std::uint16_t set = 0) {
    return add(0, ms, event_kind::wait_begin, name(tensor), 0, 0, 0, set);
  }
  made_record& settle(std::uint64_t ms, const std::string& tensor, error_kind problem = error_kind::none,
                      std::uint16_t set = 0) {
    return add(2, ms, event_kind::settled, name(tensor), static_cast<std::uint8_t>(problem), 0, 0, set);
  }
  made_record& resume(std::uint64_t ms, const std::string& tensor, error_kind problem = error_kind::none) {
    return add(0, ms, event_kind::wait_end, name(tensor), static_cast<std::uint8_t>(problem));
  }
  /// A whole call, of 2 ms.
  made_record& complete(std::uint64_t ms, const std::string& tensor) {
    return call(ms, tensor).wait(ms, tensor).settle(ms + 2, tensor).resume(ms + 2, tensor);
  }
  made_record& fail(std::uint64_t ms, const std::string& reason, error_kind kind = error_kind::disconnected) {
    return add(1, ms, event_kind::generation_end, name(reason), static_cast<std::uint8_t>(kind), 1);
  }
  made_record& regroup(std::uint64_t ms, regroup_phase phase, std::uint64_t generation) {
    return add(1, ms, event_kind::regroup, 0, static_cast<std::uint8_t>(phase), generation);
  }
  made_record& joined(std::uint64_t ms) { return add(1, ms, event_kind::joined, 0, 0); }
  made_record& path(event_kind kind, std::uint64_t ms, error_kind problem = error_kind::none) {
    return add(2, ms, kind, name("shm"), static_cast<std::uint8_t>(problem));
  }
  made_record& begin_set(std::uint64_t ms, std::uint16_t set) {
    return add(1, ms, event_kind::set_begin, 0, 0, 0, 2, set);
  }
  made_record& copied(std::uint64_t ms, const std::string& ending = "", bool told_to_end = false) {
    const auto time = std::chrono::milliseconds(ms);
    record_.copied = record_copy{{1, time, start + time}, record_.member.rank, ending, told_to_end};
    return *this;
  }

  event_record& record() { return record_; }
  rank_activity activity(std::uint64_t generation = 1) const { return activity_in(record_, generation, {}); }

private:
  std::uint32_t name(const std::string& text) {
    record_.names.push_back(text);
    return static_cast<std::uint32_t>(record_.names.size() - 1);
  }
  made_record& add(std::size_t thread, std::uint64_t ms, event_kind kind, std::uint32_t name,
                   std::uint8_t detail, std::uint64_t first = 0, std::uint64_t second = 0,
                   std::uint16_t set = 0) {
    record_.threads[thread].events.push_back({ms * 1'000'000, name, set, kind, detail, first, second});
    return *this;
  }

  event_record record_;
};

/// Milliseconds after the start of a record.
inline record_time at_ms(std::int64_t ms) {
  return made_record::start + std::chrono::milliseconds(ms);
}

} // namespace farandole
