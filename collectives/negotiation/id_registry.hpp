// How members may speak of a tensor that comes again: the id that stands for it, and for the id a cell on the
// fast path, or a bucket that it comes in. An id ends with all that hangs on it: its cell is taken back, its
// bucket is dissolved, and who waits in its row is asked for the tensor in full.
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

/// `rows` is the request table that the ids are tied to, always the same; what members are to hear goes into
/// `result`.
class id_registry {
public:
  /// `capacity`: of ids at a time, without those on the fast path; 0: everything travels by name.
  id_registry(std::size_t capacity, const fast_path_options& fast_path, bucket_coordinator buckets);

  /// Null when the id is unknown or forgotten. Valid until the next assign or forget.
  cached_tensor* find(std::uint32_t id) { return cache_.find(id); }
  std::size_t size() const { return cache_.size(); }
  /// Asked and spelled out there; dissolved and planned here.
  bucket_coordinator& buckets() { return buckets_; }

  /// A message begins: what it uses or is given an id is not forgotten before the next one.
  void begin_message() { cache_.mark(); }
  /// Gives the tensor of a complete row an id, for which others may have to make way. 0 when it goes by name.
  std::uint32_t assign(const cached_tensor& tensor, request_table& rows,
                       std::chrono::nanoseconds current_time, negotiation_result& result);
  /// All have asked for it once more, somebody first at `since`.
  void use(cached_tensor& tensor, std::chrono::nanoseconds since, std::chrono::nanoseconds current_time);
  /// It must not be forgotten: members have it pending under its id.
  void pin(std::uint32_t id);
  /// It may be forgotten again; nothing happens if the id is 0.
  void unpin(std::uint32_t id);
  void forget(const cached_tensor& tensor, request_table& rows, negotiation_result& result);

  // ---- cells

  /// Puts the tensor on the fast path, if there is a cell for it.
  void grant(cached_tensor& tensor, request_table& rows, negotiation_result& result);
  /// All of a group have come together: the same for all of them, or for none. Not for one that came by name.
  void grant_group(std::span<const ready_tensor> group, request_table& rows, negotiation_result& result);
  /// A member has left a cell.
  void retract(const fast_path_round& round, request_table& rows, negotiation_result& result);
  /// A member joins, which has left the cells that it knows of.
  void retract_all(request_table& rows, negotiation_result& result);

  // ---- buckets

  /// Something happens to this tensor alone: it had better not be in a bucket.
  void miss(const cached_tensor& tensor, request_table& rows, negotiation_result& result);
  void dissolve(std::uint32_t bucket, request_table& rows, negotiation_result& result);
  /// Plans new ones, when all of a message is taken.
  void plan(negotiation_result& result);

private:
  void leave_bucket(const cached_tensor& tensor, request_table& rows, negotiation_result& result);
  void end(const cached_tensor& old, request_table& rows, negotiation_result& result);

  response_cache cache_;
  fast_path_granter fast_path_;
  bucket_coordinator buckets_;
};

} // namespace farandole
