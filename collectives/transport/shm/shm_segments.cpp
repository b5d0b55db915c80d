// Alltoall and reducescatter in shared memory, with one round for each chunk. A slot has one cell for each
// destination. In round k every member writes piece k of the data for each destination into the cell of
// that destination; then it reads its own cell from the slot of every other member.
#include <cassert>

#include "collectives/transport/bulk_copy.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

namespace {

class segments_in_chunks : public shm_collective {
protected:
  /// `longest`: maximum size of any segment of any member; the same on all members. Cells have this size if
  /// they fit into the slot.
  segments_in_chunks(const shm_job& job, std::size_t longest) : shm_collective(job, 2, 1) {
    assert(job.streams.longest() <= longest);
    const std::size_t room = job.channel.slot_bytes() / members() / share_alignment * share_alignment;
    cut(longest, std::clamp(rounded_up(longest, share_alignment), share_alignment, room));
  }

  wait_status pack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::pack, step);
    std::size_t used = 0; // this member's own segment needs no cell
    for (std::uint32_t target = 0; target < members(); ++target)
      if (const auto bytes = segment(target, chunk).bytes; target != rank() && bytes > 0)
        used = target * chunk_bytes_ + bytes;
    if (used > 0) {
      if (const auto status = channel.await_slot(step); status != wait_status::satisfied)
        return status;
      channel.own_slot(step, used);
      for (std::uint32_t i = 1; i < members(); ++i)
        pack_segment((rank() + i) % members(), chunk);
    }
    channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  const std::byte* cell(std::uint32_t source, std::uint32_t target, std::uint64_t step) const {
    return job_.channel.slot(source, step) + target * chunk_bytes_;
  }

private:
  chunk_range segment(std::uint32_t target, std::size_t chunk) const {
    return chunk_of(job_.streams.sent[target], chunk);
  }

  void pack_segment(std::uint32_t target, std::size_t chunk) {
    std::byte* const to = job_.channel.slot(rank(), step_of(chunk)) + target * chunk_bytes_;
    const auto [from, bytes] = segment(target, chunk);
    job_.streams.sent[target].for_each(from, bytes, [&](tensor_stream::piece piece) {
      piece.offset += start_of(job_.bundle.sent, piece.part, target, members());
      copy_input(job_.bundle, piece, to + piece.at);
    });
  }
};

class alltoall_in_chunks : public segments_in_chunks {
public:
  /// No member knows how much the other members send to each other, so work::longest is used as a bound.
  explicit alltoall_in_chunks(const shm_job& job)
      : segments_in_chunks(job, job.bundle.longest * job.bundle.parts.size()) {}

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? pack(chunk) : unpack(chunk);
  }

  wait_status unpack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::unpack, step);
    if (const auto agreed = await_output(&member_progress::packed, chunk); agreed != wait_status::satisfied)
      return agreed;
    const auto& bundle = job_.bundle;
    for (; unpacked_ < members(); ++unpacked_) {
      const auto source = (rank() + unpacked_) % members();
      const auto& stream = job_.streams.received[source];
      const auto [from, bytes] = chunk_of(stream, chunk);
      if (bytes == 0)
        continue;
      if (source != rank())
        if (const auto status = channel.await(&member_progress::packed, source, step + 1);
            status != wait_status::satisfied)
          return status;
      stream.for_each(from, bytes, [&](const tensor_stream::piece& piece) {
        const auto& part = bundle.parts[piece.part];
        const std::byte* const found =
            source == rank()
                ? part.input + start_of(bundle.sent, piece.part, rank(), members()) + piece.offset
                : cell(source, rank(), step) + piece.at;
        std::byte* const output = part.output + start_of(bundle.received, piece.part, source, members());
        bulk_copy(output + piece.offset, found, piece.bytes);
      });
    }
    unpacked_ = 0;
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  std::uint32_t unpacked_ = 0; ///< number of members whose rows of this chunk have been copied
};

class reducescatter_in_chunks : public segments_in_chunks {
public:
  explicit reducescatter_in_chunks(const shm_job& job)
      : segments_in_chunks(job, job.streams.longest()), inputs_(members()) {}

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? pack(chunk) : reduce(chunk);
  }

  wait_status reduce(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::reduce, step);
    if (const auto status = channel.await_all(&member_progress::packed, step + 1);
        status != wait_status::satisfied)
      return status;
    if (const auto agreed = channel.commit(is_last(chunk)); agreed != wait_status::satisfied)
      return agreed;
    const auto& bundle = job_.bundle;
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    own_stream().for_each(from, bytes, [&](const tensor_stream::piece& piece) {
      const auto& part = bundle.parts[piece.part];
      for (std::uint32_t member = 0; member < members(); ++member)
        inputs_[member] = cell(member, rank(), step) + piece.at;
      inputs_[rank()] = part.input + start_of(bundle.sent, piece.part, rank(), members()) + piece.offset;
      reduce_inputs(bundle, part.output + piece.offset, inputs_, piece.bytes);
    });
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  std::vector<const std::byte*> inputs_; ///< scratch: where each member's bytes stand
};

} // namespace

std::unique_ptr<shm_collective> make_alltoall(const shm_job& job) {
  return std::make_unique<alltoall_in_chunks>(job);
}

std::unique_ptr<shm_collective> make_reducescatter(const shm_job& job) {
  return std::make_unique<reducescatter_in_chunks>(job);
}

} // namespace farandole
