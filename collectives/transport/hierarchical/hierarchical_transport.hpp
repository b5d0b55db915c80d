// Plans an allreduce or an allgather over two levels. For each piece of the bundle it gives the work between
// neighbours before the cross-host group carries the piece between the hosts, the work of the cross-host
// group, and the work between neighbours afterwards. It only returns works and runs none. All results are
// written directly to the caller's outputs, so no buffer is as large as the bundle.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/transport/hierarchy.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

/// Number of pieces in progress at the same time: see piece_callbacks.
inline constexpr std::size_t pieces_under_way = 3;

/// Memory that replaces the tensors of a member that has joined; kept from run to run.
struct joined_memory {
  std::vector<std::byte> inputs;  ///< neutral elements, of one piece
  std::vector<std::byte> shares;  ///< this member's share of each piece in progress
  std::vector<std::byte> outputs; ///< results of one piece, which are never read
};

/// Each host reduces over its members in rank order, and each cross-host group over its hosts in the order of
/// hosts. All members get the same bits in every run. They may differ from those of one level if additions
/// round. Sums of float16 and bfloat16 are scaled on the host, so that an average does not overflow at an
/// intermediate step.
class hierarchical_allreduce {
public:
  /// All arguments must outlive the object.
  hierarchical_allreduce(const work& bundle, const hierarchy& topology, joined_memory& joined);

  const share_plan& plan() const { return plan_; }
  work before(std::size_t piece) const; ///< a reducescatter between neighbours
  work cross_host_group() const;        ///< an allreduce, in place; has no parts if there is nothing to carry
  work after(std::size_t piece) const;  ///< an allgather between neighbours

private:
  work blank(operation kind) const;
  bool scales_early() const;
  /// Lets a level of so many members apply the postscale. Of an average, it divides by the size of the whole set.
  void scale(work& made, std::size_t level_members) const;
  std::byte* home(std::size_t piece, std::size_t part, std::size_t offset, std::size_t in_share) const;
  /// Appends the number of bytes of [from, from + bytes) in the share of each neighbour. Calls `own` for the
  /// bytes in this member's share, if there are any.
  template <class Own>
  void divide(std::size_t piece, std::size_t from, std::size_t bytes, std::vector<std::size_t>& sizes,
              const Own& own) const;

  const work& bundle_;
  const hierarchy& topology_;
  joined_memory& joined_;
  std::size_t members_;
  tensor_stream stream_;
  share_plan plan_;
};

/// The rows of each host are sent to every other host once. The constructor first copies this member's inputs
/// to their places in the outputs.
class hierarchical_allgather {
public:
  hierarchical_allgather(const work& bundle, const hierarchy& topology);

  const share_plan& plan() const { return plan_; }
  work before(std::size_t piece) const; ///< an allgather of this host's rows between neighbours
  work cross_host_group() const; ///< an allgather of hosts' shares; has no parts if there is nothing to carry
  work after(std::size_t piece) const; ///< an allgather of the shares of other hosts between neighbours

private:
  work blank() const;
  /// Appends a part that only `owner`, one of `members`, contributes, and that is already in place on the
  /// owner.
  static void append(work& to, const std::byte* memory, std::size_t bytes, std::size_t owner,
                     std::size_t self, std::size_t members);

  const work& bundle_;
  const hierarchy& topology_;
  std::vector<tensor_stream> blocks_; ///< the rows of each host, in place in the outputs
  tensor_stream rows_;                ///< the rows of this host, by part and, within each part, by neighbour
  share_plan plan_;
};

} // namespace farandole
