// Ids for tensors that come again. An id stands for a name, the signature that all members agreed on and the
// group it came in; it is given once, counts from 1 and means nothing else within its generation, so an id
// that is not found was forgotten and its sender is asked. The cache is bounded: the least recently used id
// makes way. Those on the fast path, whose users no longer show up here, stay and do not count: the fast path's area
// is their bound.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// What an id stands for.
struct cached_tensor {
  // What every use touches comes first.
  std::uint32_t id = 0;
  std::uint32_t row = 0;    ///< of the request table
  std::int64_t cell = -1;   ///< on the fast path when not negative; then it is pinned
  std::uint64_t uses = 0;   ///< times it has gone by the leader
  std::uint32_t bucket = 0; ///< that relays keep it for; 0: none
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  bool fast_path_refused = false; ///< for good: there is no room, or a member wants no seat
  ready_tensor as_ready;          ///< what to hand on when all have asked

  std::string name;
  farandole::signature signature;       ///< of rank 0 of the set
  std::vector<std::int64_t> first_dims; ///< allgather, alltoall: by rank; otherwise empty

  /// Whether this member (position in the set) asks for just this.
  bool matches(const request& asked, std::int32_t member) const;
  /// What this member would send in full.
  request request_of(std::int32_t member) const;
};

class response_cache {
public:
  /// `capacity` 0: nothing gets an id.
  explicit response_cache(std::size_t capacity) : capacity_(capacity) {}

  /// Null when the id is unknown or forgotten. Constant time. Valid until the next insert or forget.
  cached_tensor* find(std::uint32_t id) {
    const std::uint32_t page = id / page_ids;
    if (page >= pages_.size() || !pages_[page])
      return nullptr;
    const std::uint32_t slot = pages_[page]->slots[id % page_ids];
    return slot == none ? nullptr : &slots_[slot].tensor;
  }

  /// Marks as the most recently used.
  void touch(const cached_tensor& tensor);

  /// It is on the fast path: never evict it, and make room for another in its place.
  void seat(const cached_tensor& tensor);
  /// Do not evict it: it is ready and not yet handed on.
  void pin(const cached_tensor& tensor);
  /// It may be evicted again, as the most recently used.
  void unpin(const cached_tensor& tensor);

  /// Gives `tensor` an id, also in `as_ready`; who had to make way for it is appended to `evicted`. Null when
  /// there is no room: then the tensor travels by name.
  cached_tensor* insert(cached_tensor&& tensor, std::vector<cached_tensor>& evicted);

  /// Takes an id out and returns what it stood for.
  cached_tensor forget(std::uint32_t id);

  /// What is touched from now on is not evicted before the next mark: a result must not forget what it
  /// schedules.
  void mark() { marked_ = clock_; }

  std::size_t size() const { return size_; }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t page_ids = 1024;

  // Ids grow for as long as the generation lives, so their pages go when all their ids are forgotten.
  struct page {
    std::array<std::uint32_t, page_ids> slots;
    std::uint32_t live = 0;
  };
  struct slot {
    std::uint64_t touched = 0;
    std::uint32_t newer = none;
    std::uint32_t older = none;
    bool pinned = false; ///< then in no list
    bool seated = false; ///< on the fast path; then pinned
    cached_tensor tensor;
  };

  void link(std::uint32_t index);
  void unlink(std::uint32_t index);

  std::size_t capacity_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::unique_ptr<page>> pages_;
  std::size_t size_ = 0;
  std::size_t seated_ = 0;
  std::uint32_t newest_ = none;
  std::uint32_t oldest_ = none;
  std::uint32_t last_id_ = 0;
  std::uint64_t clock_ = 1;
  std::uint64_t marked_ = 0;
};

} // namespace farandole
