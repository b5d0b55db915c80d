// Which cores the members of one host run on: how many there are for them, how many members share one, and
// where a thread goes when its core is crowded. The kernel wakes threads one after the other, each near
// whoever woke it; two that end up on one core run one after the other for milliseconds before it puts one of
// them elsewhere, which is as long as a bundle takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farandole {

/// Cores that this process may really use: those of its affinity, or fewer where cgroups (v1 or v2, its own
/// or one above) give it less time. At least a hundredth; 1.5 for a quota of 150 ms in 100 ms.
double usable_cores();

/// Cores that the text of a `cpu.max` file grants ("150000 100000"); 0 when it sets no limit or is not
/// understood.
double cores_granted(const std::string& cpu_max);

/// Moves the calling thread to any other core that its affinity allows, but to none of `taken`, and leaves
/// the affinity as it was. Does nothing where there is no such core.
void move_to_another_core(std::span<const int> taken = {});

/// Fewer bytes are copied sooner than a thread is moved to another core.
inline constexpr std::size_t worth_moving_bytes = std::size_t{1} << 20;

/// One member's view of who runs where. Holds no state that changes: any thread may ask.
class core_placement {
public:
  /// `cores`: how many the members of this host may use; see usable_cores().
  core_placement(std::uint32_t members, std::uint32_t rank, double cores);

  bool alone() const { return share_ == 0; }
  bool one_core_each() const { return share_ == 1; }

  struct crowd {
    bool too_many = false;       ///< on this core: its share are members of lower rank
    std::vector<int> full_cores; ///< with their share of other members
  };
  /// `cores`: of all members, by rank, negative where it is not known; the own one is not looked at, for it
  /// is `here`.
  crowd crowd_at(int number, std::span<const int> cores) const;

  /// Moves the calling thread elsewhere when too many are on its core.
  void spread(std::span<const int> cores) const;

private:
  std::uint32_t rank_;
  std::uint32_t share_; ///< members on each core, where there are so many cores; 0: there is nobody else
};

} // namespace farandole
