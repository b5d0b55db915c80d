// An allreduce or an allgather as two levels move it: for each piece of the bundle, what a member does with
// its neighbours before its cross-host group carries the piece between the hosts, what the cross-host group carries, and what is
// done with the neighbours afterwards. Works go out, nothing is moved here. All results stand in the caller's
// outputs from the start, so no memory is as large as the bundle.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/transport/hierarchy.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

/// Pieces that are under way at once: see piece_interludes.
inline constexpr std::size_t pieces_under_way = 3;

/// What stands in for the tensors of a member that has joined; kept from run to run.
struct joined_memory {
  std::vector<std::byte> inputs;  ///< neutral elements, of one piece
  std::vector<std::byte> shares;  ///< this member's share of each piece under way
  std::vector<std::byte> outputs; ///< of one piece, looked at by nobody
};

/// Each host reduces its members in rank order, each cross-host group its hosts in the order of hosts: the same bits on
/// every member and in every run, though not those of one level where addition rounds. Sums of narrow floats
/// are scaled on the host already, so that an average overflows nowhere in between.
class hierarchical_allreduce {
public:
  /// All three outlive it.
  hierarchical_allreduce(const work& bundle, const hierarchy& topology, joined_memory& joined);

  const share_plan& plan() const { return plan_; }
  work before(std::size_t piece) const; ///< a reducescatter between neighbours
  work cross_host_group() const;        ///< an allreduce, in place; without parts where there is nothing
  work after(std::size_t piece) const;  ///< an allgather between neighbours

private:
  work blank(operation kind) const;
  bool scales_early() const;
  double factor() const;
  std::byte* home(std::size_t piece, std::size_t part, std::size_t offset, std::size_t in_share) const;
  /// Appends how much of [from, from + bytes) is in the share of each neighbour; calls `own` for this
  /// member's, where there is any.
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

/// Each host's rows cross to every other host once. Inputs are brought to their places first.
class hierarchical_allgather {
public:
  hierarchical_allgather(const work& bundle, const hierarchy& topology);

  const share_plan& plan() const { return plan_; }
  work before(std::size_t piece) const; ///< an allgather of this host's rows between neighbours
  work cross_host_group() const; ///< an allgather of hosts' shares; without parts where there is nothing
  work after(std::size_t piece) const; ///< an allgather of the shares of other hosts between neighbours

private:
  work blank() const;
  /// One part that member `owner` of `members` brings, and which stands where it belongs already.
  static void append(work& to, const std::byte* memory, std::size_t bytes, std::size_t owner,
                     std::size_t self, std::size_t members);

  const work& bundle_;
  const hierarchy& topology_;
  std::vector<tensor_stream> blocks_; ///< the rows of each host, where they stand in the outputs
  tensor_stream rows_;                ///< of this host: part by part, and in each neighbour by neighbour
  share_plan plan_;
};

} // namespace farandole
