// How a bundle of tensors in device memory moves over a path of the host: which bytes the device copies to and from
// host memory, in which chunks, and the bundle that the path runs on each chunk. All members derive the same chunks,
// because these depend on the sizes of the tensors alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/transport/path.hpp"
#include "cuda/staged/staging.hpp"

namespace farandole {

/// Bytes of one part, and their place in the host memory of a chunk.
struct chunk_piece {
  std::size_t part = 0;   ///< index in the bundle
  std::size_t offset = 0; ///< in the part
  std::size_t bytes = 0;
  std::size_t host_offset = 0; ///< a multiple of 64

  friend bool operator==(const chunk_piece&, const chunk_piece&) = default;
};

struct staged_chunk {
  std::vector<chunk_piece> inputs;  ///< the path reads them
  std::vector<chunk_piece> outputs; ///< the path writes them; empty if it writes into the inputs' place
  std::size_t host_bytes = 0;
};

/// The chunks of a bundle, in the order in which they move, each of up to `chunk_bytes` of tensors. An operation that
/// needs whole tensors, because members exchange rows or because it is Adasum, has one chunk. `own_rank`: of this member,
/// within the set.
std::vector<staged_chunk> chunks_of(const work& bundle, std::size_t chunk_bytes, std::size_t own_rank);

/// The bundle that the host's path runs: one chunk, at `memory`. Parts of the bundle without a tensor have none here
/// either, and outputs that the core allocated are written where they are.
work host_work_of(const work& bundle, const staged_chunk& chunk, std::byte* memory);

/// What this member's device copies to the host before the path runs, and back afterwards. A member that receives a
/// broadcast copies nothing out, and its root nothing back in place.
std::vector<staged_piece> copied_out(const work& bundle, const staged_chunk& chunk, std::byte* memory,
                                     std::size_t own_rank);
std::vector<staged_piece> copied_in(const work& bundle, const staged_chunk& chunk, std::byte* memory,
                                    std::size_t own_rank);

} // namespace farandole
