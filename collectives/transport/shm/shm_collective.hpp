// A collective among the members of one host, as a pipeline. The bundle is a stream that is cut into
// chunks, and each chunk passes through a few stages:
// - pack it into this member's slot,
// - reduce this member's share of it,
// - unpack the results of the other members.
//
// Each stage runs a fixed number of chunks behind the previous one. A pipeline that would have to wait for
// another member returns and later resumes at the same stage, so it needs no thread of its own. Each
// operation defines its stages in a file of its own.
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

/// Shares and cells are aligned to cache lines, so that each line has one writer and no element is split.
inline constexpr std::size_t share_alignment = 64;

/// Minimum size of a chunk. Smaller chunks cost more in their two rounds than they gain.
inline constexpr std::size_t least_chunk_bytes = std::size_t{64} << 10;

constexpr std::size_t chunks_of(std::size_t bytes, std::size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

struct chunk_range {
  std::size_t from;
  std::size_t bytes;
};

/// The tensors of a bundle as streams:
/// - allgather: `sent[r]` holds the rows that member r contributes;
/// - alltoall, reducescatter: `sent[r]` holds the rows that this member sends to member r;
/// - alltoall: `received[r]` holds the rows that member r sends to this member;
/// - other operations: `sent` holds one stream.
struct member_streams {
  std::vector<tensor_stream> sent;
  std::vector<tensor_stream> received;

  void lay_out(const work& bundle, std::uint32_t members);
  const tensor_stream& own(std::uint32_t rank) const { return sent[sent.size() == 1 ? 0 : rank]; }
  /// Size of the longest stream in `sent`.
  std::size_t longest() const;
};

/// The arguments of one run of a collective. Everything that it refers to must outlive the collective.
struct shm_job {
  const work& bundle;
  const member_streams& streams;
  shm_channel& channel;
  std::uint64_t first;      ///< the first step
  bool small_chunks = true; ///< cut small bundles into several chunks too, so that members work in parallel
};

class shm_collective {
public:
  virtual ~shm_collective() = default;
  shm_collective(const shm_collective&) = delete;
  shm_collective& operator=(const shm_collective&) = delete;

  /// Runs until it would have to wait. Returns `satisfied` when this member is done and has published
  /// everything that the other members wait for.
  wait_status run();
  /// Number of steps of the channel that the collective takes; the same on all members.
  std::uint64_t steps() const { return chunks_; }

protected:
  /// Stage i runs i * `lag` chunks behind stage 0.
  shm_collective(const shm_job& job, std::size_t stages, std::size_t lag)
      : job_(job), stages_(stages), lag_(lag) {}
  /// Runs one stage on one chunk. After it returns `would_block`, it is called again with the same arguments.
  virtual wait_status work_on(std::size_t stage, std::size_t chunk) = 0;

  void cut(std::size_t bytes, std::size_t chunk_bytes) {
    chunk_bytes_ = chunk_bytes;
    chunks_ = bytes == 0 ? 0 : chunks_of(bytes, chunk_bytes);
  }
  /// Called before the outputs of a chunk are written. For the last chunk it first waits until the counters
  /// of all other members have reached the chunk; this member does not wait for anything afterwards.
  wait_status await_output(shm_channel::counter which, std::size_t chunk);
  std::uint64_t step_of(std::size_t chunk) const { return job_.first + chunk; }
  bool is_last(std::size_t chunk) const { return chunk + 1 == chunks_; }
  chunk_range chunk_of(const tensor_stream& stream, std::size_t chunk) const {
    const std::size_t from = std::min(stream.bytes(), chunk * chunk_bytes_);
    return {from, std::min(chunk_bytes_, stream.bytes() - from)}; // empty after the end of the stream
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
  std::size_t stage_ = 0; ///< next stage of this turn
};

/// Creates the collective for the bundle's operation. The reduce op must not be Adasum.
std::unique_ptr<shm_collective> make_collective(const shm_job& job);

// Each of these has a file, or shares one with a similar operation.
std::unique_ptr<shm_collective> make_allreduce(const shm_job& job);
std::unique_ptr<shm_collective> make_allgather(const shm_job& job);
std::unique_ptr<shm_collective> make_broadcast(const shm_job& job);
std::unique_ptr<shm_collective> make_barrier(const shm_job& job);
std::unique_ptr<shm_collective> make_alltoall(const shm_job& job);
std::unique_ptr<shm_collective> make_reducescatter(const shm_job& job);

} // namespace farandole
