// Where a member's results stand while others write into them. Each member has one arena for a set in a
// generation; all other members of the host have it mapped as well, so bytes get there in one copy, without
// the kernel. Who writes cannot look afterwards whether it should have, as a reader can (loan.hpp): so a
// place that was shown to others is used again only once all of them have said that they are done with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/paths/local/sealed_memory.hpp"
#include "messages/descriptor.hpp"
#include "messages/error.hpp"

namespace farandole {

/// A member's own. Thread-safe. It takes no memory but for what is out, and lives as long as a result in it.
class arena {
public:
  static expected<std::shared_ptr<arena>> create(std::size_t bytes);
  /// As much as this machine's memory, within bounds: what is not used costs nothing.
  static std::size_t usual_bytes();

  std::size_t size() const { return memory_.size(); }
  /// To be fetched by the other members.
  int shared_descriptor() const { return shared_.get(); }

  /// Whole pages; null where there is no room, or no memory: nothing that is written there can fail.
  std::byte* take(std::size_t bytes);
  /// What was taken, with as many bytes. Its pages go.
  void give_back(std::byte* place, std::size_t bytes);
  /// Likewise, but somebody may still write there: nobody is given it again.
  void abandon(std::byte* place, std::size_t bytes);
  /// Of what was taken, from the start of the arena.
  std::uint64_t offset_of(const std::byte* place) const {
    return static_cast<std::uint64_t>(place - memory_.data());
  }

private:
  arena(descriptor shared, shared_mapping memory);
  std::size_t claim(std::size_t bytes);
  void release(std::size_t at, std::size_t bytes);
  bool fill(std::byte* place, std::size_t bytes);

  descriptor shared_;
  shared_mapping memory_;
  int process_; ///< a forked child must not take pages from its parent's results
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_; ///< bytes by offset; no two touch
};

/// Another member's arena, seen from here.
class arena_view {
public:
  static expected<arena_view> adopt(const descriptor& shared, std::size_t bytes);

  /// Null when that is not all inside.
  std::byte* at(std::uint64_t offset, std::size_t bytes) const;

private:
  explicit arena_view(shared_mapping memory) : memory_(std::move(memory)) {}

  shared_mapping memory_;
};

} // namespace farandole
