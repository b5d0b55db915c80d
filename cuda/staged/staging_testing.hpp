// The staging of a GPU of the stand-in driver, whose streams run when the test says so.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/driver/stand_in_testing.hpp"
#include "cuda/staged/staging.hpp"

namespace farandole {

inline constexpr std::size_t size = 4096;

inline std::vector<std::byte> filled(int value, std::size_t bytes = size) {
  return std::vector<std::byte>(bytes, std::byte(value));
}

inline bool holds(const pinned_memory_ptr& memory, int value, std::size_t begin = 0,
                  std::size_t bytes = size) {
  return std::ranges::all_of(memory->bytes().subspan(begin, bytes),
                             [&](std::byte byte) { return byte == std::byte(value); });
}

inline std::unique_ptr<staging> open_staging(const std::shared_ptr<devices>& all, std::int32_t device) {
  return std::move(*staging::open(all, device));
}

/// The staging of one GPU, whose streams run when the test says so.
struct staged_gpu {
  variable manual{"FARANDOLE_FAKE_CUDA_STREAMS", "manual"};
  stand_in_driver gpu{0};
  std::shared_ptr<devices> all = *devices::open(stand_in_driver::path());
  std::unique_ptr<staging> copies = open_staging(all, 0);
  CUstream out_stream = stand_in_driver::created_stream(1);
  CUstream in_stream = stand_in_driver::created_stream(0);

  pinned_memory_ptr take(std::size_t bytes = size) {
    auto memory = copies->take(bytes);
    REQUIRE(memory);
    return *memory;
  }
  device_work copy_out(std::byte* device, const pinned_memory_ptr& host, const device_point_ptr& after = {},
                       std::size_t bytes = size) {
    const staged_piece piece{device, host->bytes().data(), bytes};
    auto work = copies->copy_out({&piece, 1}, {&after, 1}, host);
    REQUIRE(work);
    return *work;
  }
  device_work copy_in(std::byte* device, const pinned_memory_ptr& host, const device_point_ptr& after = {},
                      std::size_t bytes = size) {
    const staged_piece piece{device, host->bytes().data(), bytes};
    auto work = copies->copy_in({&piece, 1}, {&after, 1}, host);
    REQUIRE(work);
    return *work;
  }
  device_point_ptr ready(CUstream stream) {
    auto point = all->ready_point({0, stream, device_readiness::stream});
    REQUIRE(point);
    return *point;
  }
  /// The error of a copy to host memory.
  error copy_error(std::byte* device, const pinned_memory_ptr& host) {
    const staged_piece piece{device, host->bytes().data(), size};
    const auto work = copies->copy_out({&piece, 1}, {}, host);
    return work ? error{} : work.error();
  }
};

} // namespace farandole
