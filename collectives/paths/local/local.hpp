// Moves bundles between the members on one host through their window, with no buffer as large as the bundle:
// the collectives of shm_collective.hpp over the window's slots, run by a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "collectives/paths/adasum.hpp"
#include "collectives/paths/local/lane_channel.hpp"
#include "collectives/paths/local/shm_collective.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/waiting/waiting.hpp"

namespace farandole {

class local_path : public path, public adasum_carrier {
public:
  using probe = lane_channel::probe;

  /// All members of the set are on this host; `rank` is this member's, within the set and in the window,
  /// which must be fresh.
  local_path(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy, probe watch = {});

  std::string_view name() const override { return "local"; }
  outcome run(const work& bundle, const limits& until) override;
  outcome carry(const work& bundle, const limits& until, const adasum_exchange& what) override;

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
