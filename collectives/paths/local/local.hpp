// Moves bundles between the members on one host through their window, with no buffer as large as the bundle:
// the parts, one after the other, are a stream cut into chunks; each member packs chunk k into its slot,
// reduces its share of chunk k from all slots in rank order, and unpacks the owners' shares. Small bundles
// take one round instead of two. Large bundles that are only copied go past the window, in one copy, where
// the kernel lets members read each other's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/adasum.hpp"
#include "collectives/paths/local/lane_placement.hpp"
#include "collectives/paths/local/loan.hpp"
#include "collectives/paths/local/window.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/tensor_stream.hpp"
#include "collectives/paths/waiting/waiting.hpp"

namespace farandole {

struct loan_plan;

/// What a member is about to do; told to the probe of a test.
enum class local_phase : std::uint8_t { pack, reduce, unpack, lend, wait };

class local_path : public path, public adasum_carrier {
public:
  /// Called on the lane before each phase of each step, and before each wait for another member's counter
  /// with the number that it must reach: the seam at which tests stop a member, or its neighbours.
  using probe = std::function<void(local_phase, std::uint64_t step)>;

  /// All members of the set are on this host; `rank` is this member's, within the set and in the window,
  /// which must be fresh. Nothing else may write this member's counters and slots. `single_copy_bytes`, the
  /// same on all members: how much one member must have for another to lend it its memory; 0: never.
  local_path(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy,
             std::size_t single_copy_bytes = 0, probe watch = {});

  std::string_view name() const override { return "local"; }
  outcome run(const work& bundle, const limits& until) override;
  outcome carry(const work& bundle, const limits& until, const adasum_exchange& what) override;

  /// Before anything is run, on all members: each finds out whether it reaches the memory of all others. Null
  /// where nothing is ever copied straight.
  expected<std::shared_ptr<const lending_circle>> meet(const limits& until);

private:
  // Steps are numbered from 0 through the life of the window, alike on all members; step s uses slot s %
  // slots, and the counters of the window hold the number of steps that each member has come through, modulo
  // 2^32.
  using counter = shared_counter member_counters::*;

  struct job; ///< what one run works on
  class adasum_slots;

  error refuse(const work& bundle) const;
  void lay_out(const work& bundle);
  bool allreduce(job& now);
  bool allreduce_at_once(job& now);
  bool allreduce_in_chunks(job& now);
  bool adaptive_sum(job& now);
  bool allgather(job& now);
  bool broadcast(job& now);
  bool barrier(job& now);
  bool alltoall(job& now);
  bool reducescatter(job& now);

  /// The phases of one chunk. False when the run has to end; `now.problem` says why.
  bool pack_chunk(job& now, std::size_t chunk);
  bool reduce_share(job& now, std::size_t chunk);
  bool unpack_shares(job& now, std::size_t chunk);
  bool pack_gathered(job& now, std::size_t chunk);
  bool unpack_gathered(job& now, std::size_t chunk);
  bool pack_segments(job& now, std::size_t chunk);
  bool unpack_segments(job& now, std::size_t chunk);
  bool reduce_segment(job& now, std::size_t chunk);
  using phase_of_chunk = bool (local_path::*)(job& now, std::size_t chunk);
  bool one_ahead(job& now, phase_of_chunk pack, phase_of_chunk unpack);

  /// True when the bundle has been copied straight; else it goes through the window, unless there is a
  /// problem.
  bool copy_straight(job& now);
  bool meet(job& now);
  bool borrow_and_lend(job& now);
  /// `lent`: what each member has shown, copied.
  bool take_lent(job& now, const loan_plan& plan, std::span<const std::vector<std::uint64_t>> lent,
                 std::uint64_t step);
  bool take_lent(job& now, std::uint32_t member, std::uint64_t from, std::span<std::byte> to,
                 std::uint64_t step);

  /// Exchanges bytes with one other member while all others do the same.
  bool swap(job& now, std::uint32_t peer, std::span<const std::byte> give, std::span<std::byte> take,
            std::size_t longest);
  bool show(job& now, std::span<const std::byte> bytes, std::uint64_t step);
  /// Descriptors, which the others read with read_words() once they have awaited the step.
  bool show_words(job& now, std::span<const std::uint64_t> words, std::uint64_t step);
  bool read_words(job& now, std::uint32_t member, std::span<std::uint64_t> words, std::uint64_t step) const;
  bool take_from(job& now, std::uint32_t peer, std::span<std::byte> bytes, std::uint64_t step);

  /// Slots in which every destination has a cell of its own: as large as the longest segment, if there is
  /// room.
  void divide_slots(job& now, std::size_t longest) const;
  std::byte* cell(const job& now, std::uint32_t source, std::uint32_t target, std::uint64_t step) const;

  bool await_slot(job& now, std::uint64_t step);
  bool await_all(job& now, counter which, std::uint64_t reached);
  bool await(job& now, std::uint32_t member, counter which, std::uint64_t reached);
  /// False; the problem is set.
  static bool gave_up(job& now);
  static bool too_late(job& now, std::uint32_t member);
  static bool damaged(job& now, std::uint32_t member, const char* part);
  static std::string doing(const job& now);
  void publish(counter which, std::uint64_t reached);
  void observe(local_phase phase, std::uint64_t step);
  /// Of all members, what the one that has most puts in: alike on all.
  std::size_t longest_stream(const work& bundle) const;
  void keep_own(const loan_plan& plan);
  std::byte* slot(std::uint32_t member, std::uint64_t step) const;
  std::byte* own_slot(std::uint64_t step, std::size_t bytes);
  std::size_t slot_bytes() const; ///< of a slot, in whole shares

  const std::shared_ptr<window> window_;
  const std::uint32_t rank_;
  const std::uint32_t members_;
  const waiting waiting_;
  lane_placement room_;
  const std::size_t single_copy_bytes_;
  const probe probe_;
  std::uint64_t step_ = 0; ///< the next
  error broken_;           ///< why the path cannot be used any more
  /// Kept for their memory. What each member gathers, or is sent by this one; in other operations only one.
  std::vector<tensor_stream> streams_;
  std::vector<tensor_stream> received_;  ///< alltoall: what each member sends to this one
  std::vector<const std::byte*> inputs_; ///< scratch: where each member's bytes stand
  adasum_scratch adasum_scratch_;
  std::shared_ptr<lending_circle> circle_; ///< null until they have met
};

} // namespace farandole
