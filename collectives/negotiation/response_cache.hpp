// Ids for tensors that are requested repeatedly. An id stands for a name, the signature that all members agreed on,
// and the group. Ids count up from 1 and are never reused within a generation, so an id that is not found has been
// forgotten, and its sender is asked for the full request. The cache is bounded: the least recently used id is
// evicted. Ids on the fast path, whose uses are not visible here, are never evicted and do not count against the
// capacity: they are bounded by the size of the fast-path area.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// The tensor that an id stands for.
struct cached_tensor {
  // The fields that every use touches come first.
  std::uint32_t id = 0;
  std::uint32_t row = 0;    ///< of the request table
  std::int64_t cell = -1;   ///< offset of its fast-path cell; then the id is pinned. -1: none
  std::uint64_t uses = 0;   ///< number of times that the leader has negotiated it
  std::uint32_t bucket = 0; ///< the bucket that contains it; 0: none
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  bool fast_path_refused = false; ///< permanently: there is no room, or a member wants no cell
  ready_tensor as_ready;          ///< is handed on when all members have asked

  std::string name;
  farandole::signature signature;       ///< of rank 0 of the set
  std::vector<std::int64_t> first_dims; ///< allgather, alltoall: by rank; otherwise empty
  std::vector<std::uint8_t> devices; ///< by rank; empty: all have it on their first device, or in host memory

  /// Whether the request of this member (position in the set) is for exactly this tensor, and contributes to it.
  bool matches(const request& asked, std::int32_t member) const;
  /// Which of its devices the member has the tensor on.
  std::uint8_t device_of(std::int32_t member) const;
  /// The full request that this member would send.
  request request_of(std::int32_t member) const;
};

class response_cache {
public:
  /// `capacity` 0: no tensor gets an id.
  explicit response_cache(std::size_t capacity) : capacity_(capacity) {}

  /// Null when the id is unknown or forgotten. Constant time. Valid until the next insert or forget.
  cached_tensor* find(std::uint32_t id) {
    const std::uint32_t page = id / page_ids;
    if (page >= pages_.size() || !pages_[page])
      return nullptr;
    const std::uint32_t slot = pages_[page]->slots[id % page_ids];
    return slot == none ? nullptr : &slots_[slot].tensor;
  }

  /// Marks the id as the most recently used.
  void touch(const cached_tensor& tensor);

  /// The id is on the fast path: it is never evicted, and no longer counts against the capacity.
  void keep_for_fast_path(const cached_tensor& tensor);
  /// Prevents the eviction of an id whose tensor is ready and not yet handed on.
  void pin(const cached_tensor& tensor);
  /// The id may be evicted again, and becomes the most recently used. No effect if it is on the fast path.
  void unpin(const cached_tensor& tensor);

  /// Assigns an id to `tensor`, also in its `as_ready`. A tensor that is evicted for it is appended to `evicted`.
  /// Null if there is no room: the tensor is then requested by name.
  cached_tensor* insert(cached_tensor&& tensor, std::vector<cached_tensor>& evicted);

  /// Removes an id and returns the tensor that it stood for.
  cached_tensor forget(std::uint32_t id);

  /// Ids that are touched from now on are not evicted before the next mark(): a result must not forget ids that it
  /// schedules.
  void mark() { marked_ = clock_; }

  std::size_t size() const { return size_; }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t page_ids = 1024;

  // Ids increase throughout the generation, so a page is freed when all of its ids are forgotten.
  struct page {
    std::array<std::uint32_t, page_ids> slots;
    std::uint32_t live = 0;
  };
  struct slot {
    std::uint64_t touched = 0;
    std::uint32_t newer = none;
    std::uint32_t older = none;
    bool pinned = false;   ///< then not in the list of recent use
    bool has_cell = false; ///< on the fast path; then pinned
    cached_tensor tensor;
  };

  void link(std::uint32_t index);
  void unlink(std::uint32_t index);

  std::size_t capacity_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::unique_ptr<page>> pages_;
  std::size_t size_ = 0;
  std::size_t with_cell_ = 0;
  std::uint32_t newest_ = none;
  std::uint32_t oldest_ = none;
  std::uint32_t last_id_ = 0;
  std::uint64_t clock_ = 1;
  std::uint64_t marked_ = 0;
};

} // namespace farandole
