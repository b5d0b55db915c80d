// The short forms in which members request a known tensor: its id, and for the id a cell on the fast path or a
// bucket. When an id ends, everything that depends on it ends too: its cell is taken back, its bucket is dissolved,
// and the members that wait in its row are asked for their full requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/negotiation/bucket_coordinator.hpp"
#include "collectives/negotiation/fast_path_granter.hpp"
#include "collectives/negotiation/negotiation_result.hpp"
#include "collectives/negotiation/request_table.hpp"
#include "collectives/negotiation/response_cache.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// In all functions, `rows` is the request table that the ids are tied to, always the same one. Decisions that
/// members must be told are added to `result`.
class id_registry {
public:
  /// `capacity`: ids at a time, not counting those on the fast path; 0: all requests are sent by name.
  id_registry(std::size_t capacity, const fast_path_options& fast_path, bucket_coordinator buckets);

  /// Null when the id is unknown or forgotten. Valid until the next assign or forget.
  cached_tensor* find(std::uint32_t id) { return cache_.find(id); }
  std::size_t size() const { return cache_.size(); }
  /// For counting requests in buckets and moving them to rows. Buckets are planned and dissolved by this class.
  bucket_coordinator& buckets() { return buckets_; }

  /// A message begins: ids that it uses or that it is assigned are not evicted before the next message.
  void begin_message() { cache_.mark(); }
  /// Assigns an id to the tensor of a complete row, which may evict other ids. Returns 0 if the tensor continues to
  /// be requested by name.
  std::uint32_t assign(const cached_tensor& tensor, request_table& rows,
                       std::chrono::nanoseconds current_time, negotiation_result& result);
  /// All members have requested the tensor once more. The first request came at `since`.
  void use(cached_tensor& tensor, std::chrono::nanoseconds since, std::chrono::nanoseconds current_time);
  /// The id must not be evicted: members have an operation pending under it.
  void pin(std::uint32_t id);
  /// The id may be evicted again. No effect if the id is 0.
  void unpin(std::uint32_t id);
  void forget(const cached_tensor& tensor, request_table& rows, negotiation_result& result);

  // ---- cells

  /// Moves the tensor to the fast path if there is a cell for it.
  void grant(cached_tensor& tensor, request_table& rows, negotiation_result& result);
  /// All tensors of a group have become ready together: moves all of them to the fast path, or none. Does nothing
  /// if one of them was requested by name.
  void grant_group(std::span<const ready_tensor> group, request_table& rows, negotiation_result& result);
  /// A member has left a cell: takes the cell back and forgets the id.
  void retract(const fast_path_round& round, request_table& rows, negotiation_result& result);
  /// A member joins, and has left the cells that it knows of: takes all cells back.
  void retract_all(request_table& rows, negotiation_result& result);

  // ---- buckets

  /// A request or withdrawal concerns this tensor alone: dissolves its bucket, unless a member has joined.
  void miss(const cached_tensor& tensor, request_table& rows, negotiation_result& result);
  void dissolve(std::uint32_t bucket, request_table& rows, negotiation_result& result);
  /// Plans new buckets, after a whole message was processed.
  void plan(negotiation_result& result);

private:
  void leave_bucket(const cached_tensor& tensor, request_table& rows, negotiation_result& result);
  void end(const cached_tensor& old, request_table& rows, negotiation_result& result);

  response_cache cache_;
  fast_path_granter fast_path_;
  bucket_coordinator buckets_;
};

} // namespace farandole
