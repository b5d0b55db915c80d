// Moves bundles between the members on one host through their segment, with no buffer as large as the bundle:
// the collectives of shm_collective.hpp over the window's slots, run by a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/lane_channel.hpp"
#include "collectives/transport/shm/shm_collective.hpp"
#include "collectives/transport/wait/futex_wait.hpp"

namespace farandole {

class shm_path : public path, public adasum_carrier {
public:
  using probe = lane_channel::probe;

  /// All members of the set are on this host; `rank` is this member's, within the set and in the segment,
  /// which must be fresh.
  shm_path(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy, probe watch = {});

  std::string_view name() const override { return "local"; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
  outcome carry(const work& bundle, const deadline_and_abort& deadline,
                const adasum_exchange& value) override;

private:
  error refuse(const work& bundle) const;
  error move(const work& bundle);
  std::size_t most_bytes(const work& bundle) const;

  lane_channel channel_;
  std::uint64_t step_ = 0; ///< the next
  error broken_;           ///< why the path cannot be used any more
  member_streams streams_; ///< kept for its memory, as is the scratch
  adasum_scratch adasum_scratch_;
};

} // namespace farandole
