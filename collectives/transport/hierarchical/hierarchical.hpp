// Moves bundles between members on several hosts, several of them on each, in two levels: neighbours reduce
// or gather in the memory that they share, and only one share of the result goes from each member over the
// network. Pieces overlap: while the network carries one, neighbours work on the next.
#pragma once

#include <memory>

#include "collectives/transport/hierarchical/hierarchical_transport.hpp"
#include "collectives/transport/hierarchy.hpp"
#include "collectives/transport/p2p/p2p_path.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

class hierarchical_path : public path {
public:
  /// `neighbours` moves between the members of this host, `cross-host group` between those of this member's cross-host group; it
  /// is null exactly where the member is in none. Both are connected, and nobody else uses them.
  hierarchical_path(hierarchy topology, std::unique_ptr<path> neighbours,
                    std::unique_ptr<p2p_path> cross_host_group);

  std::string_view name() const override { return "hierarchical"; }
  /// allreduce and allgather; of Adasum see takes_adasum().
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
  /// Neighbours exchange in the memory that they share, cross-host groups over the network, and the bits are those of
  /// the other paths; where hosts are no subcubes of the ranks there is no such order.
  bool takes_adasum() const { return takes_adasum_; }

private:
  error adaptive_sum(const work& bundle, const deadline_and_abort& deadline);
  template <class Levels>
  error walk(const Levels& levels, const deadline_and_abort& deadline);

  const hierarchy topology_;
  const std::unique_ptr<path> neighbours_;
  const std::unique_ptr<p2p_path> cross_host_group_;
  adasum_carrier* const near_; ///< neighbours_, where it carries; else null
  const bool takes_adasum_;
  joined_memory joined_;
  adasum_scratch adasum_scratch_;
  error broken_;
};

} // namespace farandole
