// Moves bundles in two levels, between several hosts with several members each. Neighbours reduce or gather
// in shared memory, and each member sends only one share of the result over the network. Pieces overlap:
// while the network carries one piece, neighbours work on the next.
#pragma once

#include <chrono>
#include <memory>

#include "collectives/transport/hierarchical/hierarchical_transport.hpp"
#include "collectives/transport/hierarchy.hpp"
#include "collectives/transport/p2p/p2p_path.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

class hierarchical_path : public path {
public:
  /// `neighbours` connects the members of this host, and `cross_host_group` those of this member's cross-host
  /// group; the latter is null exactly if the member is in none. Both must be connected, and this path is
  /// their only user.
  hierarchical_path(hierarchy topology, std::unique_ptr<path> neighbours,
                    std::unique_ptr<p2p_path> cross_host_group);

  std::string_view name() const override { return "hierarchical"; }
  /// Moves allreduce and allgather; an Adasum only if takes_adasum().
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
  /// Whether the path can run an Adasum: neighbours exchange in shared memory, cross-host groups over the
  /// network, and the result has the bits of the other paths. Requires hosts that are subcubes of the ranks.
  bool takes_adasum() const { return takes_adasum_; }

private:
  /// Adds the time that a level has waited for other members. Returns its error.
  error add(const outcome& level);
  error adaptive_sum(const work& bundle, const deadline_and_abort& deadline);
  /// For a bundle that a level begins now: it has the whole timeout, because the ones before it have succeeded.
  deadline_and_abort from_now(const deadline_and_abort& deadline) const;
  template <class Levels>
  error walk(const Levels& levels, const deadline_and_abort& deadline);

  const hierarchy topology_;
  const std::unique_ptr<path> neighbours_;
  const std::unique_ptr<p2p_path> cross_host_group_;
  adasum_carrier* const near_; ///< neighbours_ if it can carry an Adasum; otherwise null
  const bool takes_adasum_;
  joined_memory joined_;
  adasum_scratch adasum_scratch_;
  error broken_;
  std::chrono::nanoseconds waited_{0};  ///< in this run
  std::chrono::nanoseconds timeout_{0}; ///< how long a level may be without progress in this run
};

} // namespace farandole
