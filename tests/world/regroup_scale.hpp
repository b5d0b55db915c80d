// The cost of a regroup for the rendezvous of a large job: one member is lost, and all others send a hello
// again.
#pragma once

#include <chrono>
#include <cstdint>

namespace farandole::testing {

struct regroup_cost {
  std::chrono::nanoseconds busy{0}; ///< processor time of the rendezvous, and of its links for parsing
  std::uint64_t hellos = 0;
  std::uint64_t hello_bytes = 0;
  std::uint64_t welcomes = 0;
  std::uint64_t welcome_records = 0; ///< TLS records, which hold 16 KiB each
  std::uint64_t welcome_bytes = 0;
};

/// Measures from the first hello to the last welcome, with this number of survivors.
regroup_cost run_regroup(std::int32_t survivors);

} // namespace farandole::testing
