// Memory of the stand-in driver. What a caller gets as device memory may not be touched by the host: it is mapped
// without any right, and the driver keeps the bytes elsewhere. So a host that takes it for its own crashes.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

namespace fake {

enum class memory_type { device, managed, pinned };

/// One allocation. Work that uses it keeps it, even if it was freed meanwhile.
struct allocation {
  memory_type type = memory_type::device;
  CUcontext context = nullptr;
  unsigned char* address = nullptr; ///< for callers
  unsigned char* content = nullptr; ///< for the driver; the same, unless it is device memory
  std::size_t bytes = 0;
  std::size_t part_bytes = 0;   ///< of which it was mapped, if that was in parts; else `bytes`
  std::size_t mapped_bytes = 0; ///< from `address` on, and from `content` on

  allocation() = default;
  allocation(const allocation&) = delete;
  allocation& operator=(const allocation&) = delete;
  ~allocation();
};

/// Bytes at an address, as the driver reaches them. `owner` is null for memory of the host that the driver does not
/// know.
struct reachable {
  std::shared_ptr<const allocation> owner;
  unsigned char* content = nullptr;
};

/// Fails for a range that leaves its allocation, and for addresses of device memory that was freed or never existed only
/// when they are touched.
CUresult reach(CUdeviceptr address, std::size_t bytes, reachable& result);

} // namespace fake
