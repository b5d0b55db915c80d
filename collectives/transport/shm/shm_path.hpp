// The path between the members of one host. A lane runs the collectives of shm_collective.hpp over the
// slots of the shared segment; no buffer is as large as a bundle.
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

  /// All members of the path must be on this host. `rank` is this member's rank in the path and in the
  /// segment. The segment must be fresh.
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
  std::uint64_t step_ = 0; ///< next step of the channel
  error broken_;           ///< why the path is unusable; kind none: it is usable
  member_streams streams_; ///< kept between bundles to reuse its memory, like the scratch memory
  adasum_scratch adasum_scratch_;
};

} // namespace farandole
