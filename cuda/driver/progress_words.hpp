// The words in pinned memory in which a device writes how far it has come with a copy (device_progress). Each is alone
// in a cache line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver/pinned_pool.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Thread-safe, as the last reference to a word is released in any thread.
class progress_words : public std::enable_shared_from_this<progress_words> {
public:
  using word = std::atomic<std::uint32_t>;

  progress_words(std::shared_ptr<pinned_pool> pinned, std::int32_t device)
      : pinned_(std::move(pinned)), device_(device) {}
  progress_words(const progress_words&) = delete;
  progress_words& operator=(const progress_words&) = delete;

  /// A word of value `none`. It is used again when the last reference is gone; no device may write it then.
  expected<std::shared_ptr<word>> take();

private:
  static constexpr std::size_t word_bytes = 64; ///< a cache line

  error add_block();

  std::shared_ptr<pinned_pool> pinned_;
  std::int32_t device_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const pinned_block>> blocks_; ///< that the words are in
  std::vector<word*> unused_;
};

} // namespace farandole
