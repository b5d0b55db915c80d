// What a regroup costs the rendezvous of a large job: one member is lost, all others say hello again.
#pragma once

#include <chrono>
#include <cstdint>

namespace farandole::testing {

struct regroup_cost {
  std::chrono::nanoseconds busy{0}; ///< of the rendezvous, and of its links parsing what they got
  std::uint64_t hellos = 0;
  std::uint64_t hello_bytes = 0;
  std::uint64_t welcomes = 0;
  std::uint64_t welcome_records = 0; ///< of TLS, which takes 16 KiB at a time
  std::uint64_t welcome_bytes = 0;
};

/// From the first hello to the last welcome, where so many come again.
regroup_cost run_regroup(std::int32_t survivors);

} // namespace farandole::testing
