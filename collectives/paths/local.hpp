// Moves bundles between the members on one host through their window, with no buffer as large as the bundle:
// the parts, one after the other, are a stream cut into chunks; each member packs chunk k into its slot,
// reduces its share of chunk k from all slots in rank order, and unpacks the owners' shares. Small bundles
// take one round instead of two.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "collectives/paths/path.hpp"
#include "collectives/paths/waiting.hpp"
#include "collectives/paths/window.hpp"

namespace farandole {

/// What a member is about to do; told to the probe of a test.
enum class local_phase : std::uint8_t { pack, reduce, unpack };

class local_path : public path {
public:
  /// Called on the lane before each phase of each step.
  using probe = std::function<void(local_phase, std::uint32_t step)>;

  /// All members of the set are on this host; `rank` is this member's within the set and in the window, which
  /// must be fresh. Nothing else writes this member's counters and slots.
  local_path(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy, probe watch = {});

  std::string_view name() const override { return "local"; }
  outcome run(const work& bundle, const limits& until) override;

private:
  struct run_state;
  error allreduce_at_once(run_state& now);
  error allreduce_in_chunks(run_state& now);
  error allgather(run_state& now);
  error broadcast(run_state& now);
  error barrier(run_state& now);

  void pack(run_state& now, std::uint32_t step, std::size_t from, std::size_t bytes);
  void reduce_share(run_state& now, std::uint32_t step, std::size_t from, std::size_t bytes);
  void unpack_shares(run_state& now, std::uint32_t step, std::size_t from, std::size_t bytes);
  bool await_all(run_state& now, shared_counter member_counters::*which, std::uint32_t wanted);
  bool await(run_state& now, std::uint32_t member, shared_counter member_counters::*which,
             std::uint32_t wanted);
  bool await_slot(run_state& now, std::uint32_t step);
  void observe(local_phase phase, std::uint32_t step);

  std::shared_ptr<window> window_;
  const std::uint32_t rank_;
  const std::uint32_t members_;
  const waiting waiting_;
  const probe probe_;
  std::uint32_t step_ = 0; ///< the next; all members count alike
  error broken_;           ///< why the path cannot be used any more
};

} // namespace farandole
