// Pinned host memory, which all devices read and write directly. The driver takes about a millisecond for each
// megabyte of it, and may wait for the devices when it is freed, so blocks are used again: their sizes are powers of
// two, and a block serves requests of its size only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/driver/primary_contexts.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class pinned_pool;

/// Goes back to its pool when the last reference is gone. The holder makes sure that no device uses it then.
class pinned_block {
public:
  pinned_block(std::shared_ptr<pinned_pool> pool, std::byte* memory, std::size_t bytes, std::int32_t device)
      : pool_(std::move(pool)), memory_(memory), bytes_(bytes), device_(device) {}
  pinned_block(const pinned_block&) = delete;
  pinned_block& operator=(const pinned_block&) = delete;
  ~pinned_block();

  std::span<std::byte> bytes() const { return {memory_, bytes_}; } ///< aligned to a page

private:
  std::shared_ptr<pinned_pool> pool_;
  std::byte* memory_;
  std::size_t bytes_;
  std::int32_t device_;
};

/// Thread-safe. One pool serves all devices.
class pinned_pool : public std::enable_shared_from_this<pinned_pool> {
public:
  static constexpr std::size_t least_bytes = std::size_t{64} << 10;
  /// Of unused blocks. take() frees what exceeds it; blocks that are returned call no function of the driver.
  static constexpr std::size_t most_unused_bytes = std::size_t{256} << 20;

  explicit pinned_pool(std::shared_ptr<primary_contexts> contexts) : contexts_(std::move(contexts)) {}
  pinned_pool(const pinned_pool&) = delete;
  pinned_pool& operator=(const pinned_pool&) = delete;
  ~pinned_pool();

  /// A block of at least `bytes`. `overloaded` if there is no memory, even after all unused blocks were freed. `device`
  /// is the one whose context allocates a new block.
  expected<std::shared_ptr<const pinned_block>> take(std::size_t bytes, std::int32_t device);

private:
  friend class pinned_block;
  struct unused_block {
    std::byte* memory;
    std::size_t bytes;
    std::int32_t device; ///< whose context allocated it
  };

  expected<std::byte*> allocate(std::size_t bytes, std::int32_t device);
  std::byte* take_unused(std::size_t bytes, std::int32_t& device);
  void free_unused(std::size_t most_bytes);
  void give_back(const unused_block& block);

  std::shared_ptr<primary_contexts> contexts_;
  std::mutex mutex_;
  std::list<unused_block> unused_; ///< the least recently used first
  std::size_t unused_bytes_ = 0;   ///< their sum
};

} // namespace farandole
