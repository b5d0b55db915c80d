// Memory for results whose size is known only when an operation starts. Fresh memory of that size costs a
// page fault for every page, more than the bytes take to move, so blocks that callers have let go are kept
// warm for the next results. What neighbours write into stands in an result heap instead, and is kept warm alike.
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
  /// Gives its bytes back when it is dropped, by whatever thread.
  struct giver_back {
    std::shared_ptr<result_memory> home;
    std::shared_ptr<shared_result_heap> heap; ///< null: of this process alone
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  using block = std::unique_ptr<std::byte[], giver_back>;

  /// Keeps at most `limit` bytes that nobody uses, and never so many that more is held altogether than was
  /// once in use.
  explicit result_memory(std::size_t limit = std::size_t{256} << 20) : limit_(limit) {}
  ~result_memory();
  result_memory(const result_memory&) = delete;
  result_memory& operator=(const result_memory&) = delete;

  /// At least so many bytes, of any content, in that result heap if one is given; null where there is no memory.
  block take(std::size_t bytes, std::shared_ptr<shared_result_heap> heap = nullptr);
  /// Of a block in an result heap into which others may write yet: it is not given out again.
  static void abandon(block which);

  /// Bytes kept that nobody uses.
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
  std::vector<spare> spares_; ///< the one kept longest first
  std::size_t kept_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
};

} // namespace farandole
