// A collective among the members of one host as a pipeline: the bundle is a stream that is cut into chunks,
// and each chunk goes through a few stages (pack it into this member's slot, reduce this member's share of
// it, unpack what others have made of it), each a fixed number of chunks behind the one before. A pipeline
// that would have to wait for another member remembers where it is and goes on from there, so it needs no
// thread of its own. One file for each operation says what its stages do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/pages.hpp"
#include "collectives/transport/shm/shm_channel.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

/// Shares and cells begin at cache lines: a line has one writer, and no element is split.
inline constexpr std::size_t share_alignment = 64;

/// Smallest chunk worth its two rounds.
inline constexpr std::size_t least_chunk_bytes = std::size_t{64} << 10;

constexpr std::size_t chunks_of(std::size_t bytes, std::size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

struct chunk_range {
  std::size_t from;
  std::size_t bytes;
};

/// The tensors of a bundle as streams. Where each member has its own rows: what each member gathers, or what
/// this member sends to each of them (`sent`), and what each sends to this one (`received`, alltoall only).
/// Otherwise `sent` holds one stream.
struct member_streams {
  std::vector<tensor_stream> sent;
  std::vector<tensor_stream> received;

  void lay_out(const work& bundle, std::uint32_t members);
  const tensor_stream& own(std::uint32_t rank) const { return sent[sent.size() == 1 ? 0 : rank]; }
  /// The longest of `sent`.
  std::size_t longest() const;
};

/// What one run of a collective works on. All of it outlives the collective.
struct shm_job {
  const work& bundle;
  const member_streams& streams;
  shm_channel& channel;
  std::uint64_t first;      ///< the first step
  bool small_chunks = true; ///< cut what fits into few slots all the same, so that members work side by side
};

class shm_collective {
public:
  virtual ~shm_collective() = default;
  shm_collective(const shm_collective&) = delete;
  shm_collective& operator=(const shm_collective&) = delete;

  /// Goes on for as long as it need not wait. `there`: this member is done, and has published all that others
  /// wait for.
  arrival run();
  /// How many steps of the channel it takes, alike on all members.
  std::uint64_t steps() const { return chunks_; }

protected:
  /// Stage i works on the chunk that is i * `lag` chunks behind the one that stage 0 works on.
  shm_collective(const shm_job& job, std::size_t stages, std::size_t lag)
      : job_(job), stages_(stages), lag_(lag) {}
  /// Does a stage's work on a chunk. After `later` it is called again with the same arguments.
  virtual arrival work_on(std::size_t stage, std::size_t chunk) = 0;

  void cut(std::size_t bytes, std::size_t chunk_bytes) {
    chunk_bytes_ = chunk_bytes;
    chunks_ = bytes == 0 ? 0 : chunks_of(bytes, chunk_bytes);
  }
  /// Before the outputs of a chunk are written. Before those of the last, all others have come so far: then
  /// this member waits for nothing any more.
  arrival await_output(shm_channel::counter which, std::size_t chunk);
  std::uint64_t step_of(std::size_t chunk) const { return job_.first + chunk; }
  bool is_last(std::size_t chunk) const { return chunk + 1 == chunks_; }
  chunk_range chunk_of(const tensor_stream& stream, std::size_t chunk) const {
    const std::size_t from = std::min(stream.bytes(), chunk * chunk_bytes_);
    return {from, std::min(chunk_bytes_, stream.bytes() - from)}; // empty past the stream's end
  }
  const tensor_stream& own_stream() const { return job_.streams.own(rank()); }
  std::uint32_t rank() const { return job_.channel.rank(); }
  std::uint32_t members() const { return job_.channel.members(); }

  const shm_job job_;
  std::size_t chunk_bytes_ = 0;
  std::size_t chunks_ = 0;

private:
  const std::size_t stages_;
  const std::size_t lag_;
  std::size_t turn_ = 0;
  std::size_t stage_ = 0; ///< of this turn: the next
};

/// The collective of the bundle's operation, which is none of Adasum.
std::unique_ptr<shm_collective> make_collective(const shm_job& job);

// One file each.
std::unique_ptr<shm_collective> make_allreduce(const shm_job& job);
std::unique_ptr<shm_collective> make_allgather(const shm_job& job);
std::unique_ptr<shm_collective> make_broadcast(const shm_job& job);
std::unique_ptr<shm_collective> make_barrier(const shm_job& job);
std::unique_ptr<shm_collective> make_alltoall(const shm_job& job);
std::unique_ptr<shm_collective> make_reducescatter(const shm_job& job);

} // namespace farandole
