// Memory for results whose size is known only when an operation starts. Fresh memory costs one page fault
// for each page, which takes longer than copying the data, so released blocks are cached for later results.
// Results into which other members write are allocated in a shared result heap; those blocks are cached in
// the same way.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/transport/shm/shared_result_heap.hpp"

namespace farandole {

class result_memory : public std::enable_shared_from_this<result_memory> {
public:
  /// Deleter that returns a block to its result_memory. Any thread may destroy the block.
  struct giver_back {
    std::shared_ptr<result_memory> home;
    std::shared_ptr<shared_result_heap> heap; ///< null: private memory of this process
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  using block = std::unique_ptr<std::byte[], giver_back>;

  /// Caches at most `limit` unused bytes. Used and cached bytes together never exceed the largest number of
  /// bytes that were in use at one time.
  explicit result_memory(std::size_t limit = std::size_t{256} << 20) : limit_(limit) {}
  ~result_memory();
  result_memory(const result_memory&) = delete;
  result_memory& operator=(const result_memory&) = delete;

  /// Returns a block of at least `bytes` bytes with unspecified contents, in `heap` if it is not null.
  /// Returns null if there is no memory.
  block take(std::size_t bytes, std::shared_ptr<shared_result_heap> heap = nullptr);
  /// Releases a block in a result heap into which other members may still write. The block is never reused.
  static void abandon(block which);

  /// Number of unused bytes in the cache.
  std::size_t kept() const;

private:
  struct spare {
    std::byte* memory;
    std::size_t bytes;
    std::shared_ptr<shared_result_heap> heap;
  };
  void give_back(spare entry);
  std::optional<spare> take_spare(std::size_t minimum, const shared_result_heap* heap);

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::vector<spare> spares_; ///< oldest first
  std::size_t kept_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
};

} // namespace farandole
