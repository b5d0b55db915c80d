#include "collectives/transport/shm/shm_path.hpp"

#include <cassert>
#include <string>
#include <utility>

#include "collectives/operation.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/shm/shm_adasum.hpp"

namespace farandole {

shm_path::shm_path(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy, probe watch)
    : channel_(std::move(shared), rank, policy, std::move(watch)) {
  assert(rank < channel_.members());
}

outcome shm_path::run(const work& bundle, const deadline_and_abort& deadline) {
  if (broken_)
    return {broken_};
  if (auto problem = refuse(bundle))
    return {problem};
  channel_.begin(bundle, deadline);
  streams_.lay_out(bundle, channel_.members());
  if (most_bytes(bundle) >= worth_moving_bytes)
    channel_.spread(step_);
  broken_ = move(bundle);
  return {broken_, channel_.waited()};
}

error shm_path::move(const work& bundle) {
  if (bundle.operation == operation::allreduce && bundle.reduce_op == reduce_op::adasum) {
    if (streams_.own(channel_.rank()).bytes() == 0)
      return {};
    shm_adasum exchange(channel_, step_);
    return adasum(bundle, static_cast<std::int32_t>(channel_.rank()),
                  static_cast<std::int32_t>(channel_.members()), adasum_scratch_)
        .run(exchange);
  }
  const auto collective = make_collective({bundle, streams_, channel_, step_});
  step_ += collective->steps();
  const auto end = collective->run();
  assert(end != wait_status::would_block && "a lane waits");
  return end == wait_status::satisfied ? error{} : channel_.problem();
}

outcome shm_path::carry(const work& bundle, const deadline_and_abort& deadline,
                        const adasum_exchange& value) {
  if (broken_)
    return {broken_};
  channel_.begin(bundle, deadline);
  shm_adasum exchange(channel_, step_);
  broken_ = value(exchange);
  return {broken_, channel_.waited()};
}

/// The size of the bundle as far as the placement of lanes is concerned, the same on all members: the longest
/// stream, or for alltoall an upper bound of the bytes that a member sends.
std::size_t shm_path::most_bytes(const work& bundle) const {
  if (row_of(bundle.operation).rows == row_use::dealt)
    return bundle.longest * channel_.members();
  return streams_.longest();
}

error shm_path::refuse(const work& bundle) const {
  const auto members = channel_.members();
  if (auto problem = why_not_on_cpu(bundle, members))
    return problem;
  const std::size_t sizes = bundle.parts.size() * members;
  const auto rows = row_of(bundle.operation).rows;
  if (rows == row_use::gathered)
    assert(bundle.gathered.size() == sizes);
  if (rows == row_use::dealt)
    assert(bundle.received.size() == sizes);
  if (rows == row_use::dealt || rows == row_use::segmented) {
    assert(bundle.sent.size() == sizes);
    if (channel_.slot_bytes() / members < share_alignment)
      return {error_kind::unimplemented, "slots of " + std::to_string(channel_.slot_bytes()) +
                                             " bytes have no room for " + std::to_string(members) +
                                             " destinations"};
  }
  if (bundle.operation == operation::broadcast)
    assert(bundle.root >= 0 && static_cast<std::uint32_t>(bundle.root) < members);
  return {};
}

} // namespace farandole
