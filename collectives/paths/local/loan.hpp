// One copy instead of two: a member takes bytes out of another's memory where they stand (process_vm_readv),
// or writes them where the other wants them, in its arena (arena.hpp). Reading cannot harm who is read,
// whatever has become of its memory; what must not happen is that the reader believes bytes that were no
// longer lent. So a lender keeps a beacon in its own memory that names what it lends now, and a reader looks
// at the beacon after it has read: one look says that the process is still the one that it was when they met,
// that its memory is, and that nothing had been given back. Nobody waits for a reader that is frozen, and no
// process id has to be trusted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/paths/local/arena.hpp"
#include "messages/descriptor.hpp"

namespace farandole {

/// Where a member's beacon stands, and by what it is known. Told to neighbours through their window.
struct lender_card {
  std::int64_t process = 0;
  std::uint64_t beacon = 0; ///< its address in that process
  std::uint64_t nonce[2] = {};
};

class lender {
public:
  lender();
  /// Withdrawn for good.
  ~lender();
  lender(const lender&) = delete;
  lender& operator=(const lender&) = delete;

  lender_card card() const;
  /// From now on the memory that others were told of under this number, which is not 0 and never used again,
  /// may be believed.
  void lend(std::uint64_t loan);
  /// Before the memory goes back to its owner. Nothing that is read from now on is believed.
  void withdraw() { lend(0); }

private:
  friend class borrower;
  /// What readers compare.
  struct beacon {
    std::uint64_t nonce[2] = {};
    std::atomic<std::uint64_t> loan{0};
  };
  const std::unique_ptr<beacon> beacon_;
};

/// Another member's memory, seen from here.
class borrower {
public:
  explicit borrower(const lender_card& other) : other_(other) {}

  /// Whether the kernel lets this process read that very member's memory.
  bool reaches() const;
  /// 0, or why not: the number of an error of the kernel. What has come must not be believed before holds().
  int copy(std::uint64_t from, std::span<std::byte> to) const;
  /// Whether all that was copied so far was lent under this number.
  bool holds(std::uint64_t loan) const;
  /// Whether all that was copied so far came from that very process. Whether it was lent then must be known
  /// otherwise.
  bool lives() const;
  /// One of that process's descriptors, for this process; empty where the kernel does not allow it.
  descriptor fetch(int number) const;

private:
  int look(lender::beacon& seen) const;

  lender_card other_;
};

/// The members of one host, once they have met: constant from then on, and thread-safe but for the lender's
/// loan.
struct lending_circle {
  lender own;
  std::vector<borrower> others; ///< by member, this one included
  bool all_reach_all = false;   ///< known alike by all
  /// Both empty unless all members can write into the arenas of all, which is known alike by all.
  std::shared_ptr<arena> own_arena;
  std::vector<arena_view> arenas; ///< by member, this one included
};

/// Whether others could read memory of this process: not all is made of pages that the kernel can hold (that
/// of devices is not). Looks at both ends.
bool can_be_lent(std::span<const std::byte> memory);

} // namespace farandole
