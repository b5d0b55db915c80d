// Places the members of one host on cores: how many cores they may use, how many members share a core, and
// where a thread moves when its core is crowded. The kernel places each woken thread near its waker. If two
// members end up on one core, they take turns for milliseconds before the kernel moves one of them, which is
// as long as a bundle takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farandole {

/// The number of cores that this process can use: those of its affinity, or fewer if cgroups (v1 or v2, its
/// own or a parent) grant less time. At least 0.01; 1.5 for a quota of 150 ms in 100 ms.
double usable_cores();

/// The number of cores that the text of a `cpu.max` file grants ("150000 100000"); 0 if it sets no limit or
/// cannot be parsed.
double cores_granted(const std::string& cpu_max);

/// Moves the calling thread to another core that its affinity allows and that is not in `taken`. The affinity
/// is restored afterwards. Does nothing if there is no such core.
void move_to_another_core(std::span<const int> taken = {});

/// Minimum bundle size for which a move pays: fewer bytes are copied in less time than a thread takes to
/// move.
inline constexpr std::size_t worth_moving_bytes = std::size_t{1} << 20;

/// One member's rule for the placement of all members. Immutable, so any thread may call it.
class core_placement {
public:
  /// `cores`: the number of cores that the members of this host may use; see usable_cores().
  core_placement(std::uint32_t members, std::uint32_t rank, double cores);

  bool alone() const { return share_ == 0; }
  bool one_core_each() const { return share_ == 1; }

  struct crowd {
    bool too_many = false;       ///< this core already has its share of members of lower rank
    std::vector<int> full_cores; ///< cores that have their share of other members
  };
  /// `number`: the core of this member. `cores`: the cores of all members, by rank, negative if unknown; this
  /// member's own entry is ignored.
  crowd crowd_at(int number, std::span<const int> cores) const;

  /// Moves the calling thread to another core if its core has too many members.
  void spread(std::span<const int> cores) const;

private:
  std::uint32_t rank_;
  std::uint32_t share_; ///< greatest number of members on each core; 0: there is no other member
};

} // namespace farandole
