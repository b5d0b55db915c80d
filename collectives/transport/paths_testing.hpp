// Shared by the tests of paths: members of one host as threads of one process, each with its own mapping of
// the shared segment, and inputs of every dtype from a seed.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole::testing {

using bytes = std::vector<std::byte>;
using std::chrono::steady_clock;

/// Long enough for a loaded machine; no test waits for it to pass.
inline steady_clock::time_point far() {
  return steady_clock::now() + std::chrono::minutes(4);
}

/// One mapping of the same shared segment for each member.
inline std::vector<std::shared_ptr<shm_segment>> make_segments(const segment_layout& layout) {
  auto first = shm_segment::create(layout);
  std::vector<std::shared_ptr<shm_segment>> result{std::move(*first)};
  for (std::uint32_t i = 1; i < layout.members; ++i) {
    auto next =
        shm_segment::adopt(descriptor(fcntl(result[0]->shared_descriptor(), F_DUPFD_CLOEXEC, 0)), layout);
    result.push_back(std::move(*next));
  }
  return result;
}

/// Runs `act(rank)` on a thread for each member and waits for all.
inline void together(std::uint32_t members, const std::function<void(std::uint32_t)>& act) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    threads.emplace_back(act, rank);
  for (auto& thread : threads)
    thread.join();
}

/// `count` finite elements of moderate size, so that their sums and products are finite too. They repeat
/// after a prime number of elements, so that large inputs are generated quickly.
inline bytes random_elements(dtype type, std::size_t count, std::mt19937& random) {
  bytes result(count * size_of(type));
  const auto put = [&](std::size_t i, auto value) {
    std::memcpy(result.data() + i * sizeof value, &value, sizeof value);
  };
  std::uniform_real_distribution<double> real(-4, 4);
  const std::size_t drawn = std::min<std::size_t>(count, 10'007);
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::uint32_t bits = random();
    switch (type) {
    case dtype::float16: // sign, exponent around 0, any mantissa
      put(i, static_cast<std::uint16_t>((bits & 0x83ff) | (13 + bits / 65536 % 4) << 10));
      break;
    case dtype::bfloat16:
      put(i, static_cast<std::uint16_t>((bits & 0x807f) | (125 + bits / 65536 % 4) << 7));
      break;
    case dtype::float32:
      put(i, static_cast<float>(real(random)));
      break;
    case dtype::float64:
      put(i, real(random));
      break;
    default:
      std::memcpy(result.data() + i * size_of(type), &bits, std::min<std::size_t>(size_of(type), 4));
    }
  }
  for (std::size_t at = drawn * size_of(type); at < result.size();) {
    const std::size_t more = std::min(at, result.size() - at);
    std::memcpy(result.data() + at, result.data(), more);
    at += more;
  }
  return result;
}

} // namespace farandole::testing
