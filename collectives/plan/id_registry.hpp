// How members may speak of a tensor that comes again: the id that stands for it, and for the id a cell on the
// board, or a bucket that it comes in. An id ends with all that hangs on it: its cell is taken back, its
// bucket is dissolved, and who waits in its row is asked for the tensor in full.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/plan/board_granter.hpp"
#include "collectives/plan/bucket_coordinator.hpp"
#include "collectives/plan/response_cache.hpp"
#include "collectives/plan/tally.hpp"
#include "collectives/plan/verdict.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

/// `rows` is the tally that the ids are tied to, always the same; what members are to hear goes into
/// `result`.
class id_registry {
public:
  /// `capacity`: of ids at a time, without those on the board; 0: everything travels by name.
  id_registry(std::size_t capacity, const board_options& board, bucket_coordinator buckets);

  /// Null when the id is unknown or forgotten. Valid until the next assign or forget.
  cached_tensor* find(std::uint32_t id) { return cache_.find(id); }
  std::size_t size() const { return cache_.size(); }
  /// Asked and spelled out there; dissolved and planned here.
  bucket_coordinator& buckets() { return buckets_; }

  /// A message begins: what it uses or is given an id is not forgotten before the next one.
  void begin_message() { cache_.mark(); }
  /// Gives the tensor of a complete row an id, for which others may have to make way. 0 when it goes by name.
  std::uint32_t assign(const cached_tensor& tensor, tally& rows, std::chrono::nanoseconds now,
                       verdict& result);
  /// All have asked for it once more, somebody first at `since`.
  void use(cached_tensor& tensor, std::chrono::nanoseconds since, std::chrono::nanoseconds now);
  /// It must not be forgotten: members have it pending under its id.
  void pin(std::uint32_t id);
  /// It may be forgotten again; nothing happens if the id is 0.
  void unpin(std::uint32_t id);
  void forget(const cached_tensor& tensor, tally& rows, verdict& result);

  // ---- cells

  /// Puts the tensor on the board, if there is a cell for it.
  void grant(cached_tensor& tensor, tally& rows, verdict& result);
  /// All of a group have come together: the same for all of them, or for none. Not for one that came by name.
  void grant_group(std::span<const ready_tensor> group, tally& rows, verdict& result);
  /// A member has left a cell.
  void retract(const board_round& round, tally& rows, verdict& result);
  /// A member joins, which has left the cells that it knows of.
  void retract_all(tally& rows, verdict& result);

  // ---- buckets

  /// Something happens to this tensor alone: it had better not be in a bucket.
  void miss(const cached_tensor& tensor, tally& rows, verdict& result);
  void dissolve(std::uint32_t bucket, tally& rows, verdict& result);
  /// Plans new ones, when all of a message is taken.
  void plan(verdict& result);

private:
  void leave_bucket(const cached_tensor& tensor, tally& rows, verdict& result);
  void end(const cached_tensor& old, tally& rows, verdict& result);

  response_cache cache_;
  board_granter board_;
  bucket_coordinator buckets_;
};

} // namespace farandole
