// Allreduce in shared memory.
//
// - A small bundle takes one round: every member publishes its whole input and reduces all inputs.
// - A larger bundle is reduced in segments (reduce-scatter, then allgather; Thakur, Rabenseifner and Gropp,
//   "Optimization of Collective Communication Operations in MPICH", 2005, section 4.5): each member reduces
//   its share of a chunk from all slots, in rank order, into its own slot, and all members copy the shares
//   from there.
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

namespace {

/// Up to this many bytes of all members together, every member reduces everything itself: this is cheaper
/// than a second round in which members wake each other.
constexpr std::size_t at_once_bytes = std::size_t{128} << 10;

/// The part of a chunk of `bytes` that a member reduces.
chunk_range share_of(std::size_t bytes, std::uint32_t member, std::uint32_t members) {
  const std::size_t index = rounded_up((bytes + members - 1) / members, share_alignment);
  const std::size_t from = std::min(bytes, index * member);
  return {from, std::min(index, bytes - from)};
}

class allreduce_at_once : public shm_collective {
public:
  explicit allreduce_at_once(const shm_job& job) : shm_collective(job, 2, 0), inputs_(members()) {
    const auto bytes = own_stream().bytes();
    cut(bytes, bytes);
  }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? pack(step_of(chunk)) : reduce(step_of(chunk));
  }

  wait_status pack(std::uint64_t step) {
    auto& channel = job_.channel;
    channel.enter(local_phase::pack, step);
    if (const auto status = channel.await_slot(step); status != wait_status::satisfied)
      return status;
    std::byte* const own = channel.own_slot(step, chunk_bytes_);
    own_stream().for_each(0, chunk_bytes_, [&](const tensor_stream::piece& piece) {
      copy_input(job_.bundle, piece, own + piece.at);
    });
    channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  /// Reduces directly into the outputs.
  wait_status reduce(std::uint64_t step) {
    auto& channel = job_.channel;
    channel.enter(local_phase::reduce, step);
    if (const auto status = channel.await_all(&member_progress::packed, step + 1);
        status != wait_status::satisfied)
      return status;
    if (const auto agreed = channel.commit(true); agreed != wait_status::satisfied)
      return agreed;
    channel.enter(local_phase::unpack, step);
    own_stream().for_each(0, chunk_bytes_, [&](const tensor_stream::piece& piece) {
      const auto& part = job_.bundle.parts[piece.part];
      if (!part.output)
        return;
      for (std::uint32_t member = 0; member < members(); ++member)
        inputs_[member] = channel.slot(member, step) + piece.at;
      if (part.input)
        inputs_[rank()] = part.input + piece.offset;
      reduce_inputs(job_.bundle, part.output + piece.offset, inputs_, piece.bytes);
    });
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  std::vector<const std::byte*> inputs_; ///< scratch: where each member's bytes stand
};

class allreduce_in_chunks : public shm_collective {
public:
  /// Packs one chunk ahead: while a member reduces chunk k, its chunk k+1 is already published. With only
  /// two slots this would make each member wait until the other members have unpacked.
  explicit allreduce_in_chunks(const shm_job& job)
      : shm_collective(job, 3, job.channel.slots() > 2 ? 1 : 0), inputs_(members()) {
    const auto bytes = own_stream().bytes();
    const auto room = job.channel.slot_bytes();
    // If there are few chunks, smaller chunks let the members work in parallel sooner.
    const auto wanted = job.small_chunks ? bytes / 4 : bytes;
    cut(bytes, std::clamp(rounded_up(wanted, share_alignment), std::min(least_chunk_bytes, room), room));
  }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? pack(chunk) : stage == 1 ? reduce(chunk) : unpack(chunk);
  }

  wait_status pack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::pack, step);
    if (const auto status = channel.await_slot(step); status != wait_status::satisfied)
      return status;
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    std::byte* const own = channel.own_slot(step, bytes);
    const auto copy = [&, from = from](std::size_t begin, std::size_t end) {
      own_stream().for_each(from + begin, end - begin, [&](const tensor_stream::piece& piece) {
        copy_input(job_.bundle, piece, own + begin + piece.at);
      });
    };
    // This member reduces its own share directly from the input if the share is contiguous there; it need
    // not be packed.
    const auto share = share_of(bytes, rank(), members());
    if (own_share(from, share)) {
      copy(0, share.from);
      copy(share.from + share.bytes, bytes);
    } else {
      copy(0, bytes);
    }
    channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  wait_status reduce(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::reduce, step);
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    const auto share = share_of(bytes, rank(), members());
    if (share.bytes > 0) {
      if (const auto status = channel.await_all(&member_progress::packed, step + 1);
          status != wait_status::satisfied)
        return status;
      for (std::uint32_t member = 0; member < members(); ++member)
        inputs_[member] = channel.slot(member, step) + share.from;
      if (const auto* input = own_share(from, share))
        inputs_[rank()] = input;
      reduce_inputs(job_.bundle, channel.slot(rank(), step) + share.from, inputs_, share.bytes);
    }
    channel.publish(&member_progress::reduced, step + 1);
    return wait_status::satisfied;
  }

  wait_status unpack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::unpack, step);
    if (const auto agreed = await_output(&member_progress::reduced, chunk); agreed != wait_status::satisfied)
      return agreed;
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    for (; unpacked_ < members(); ++unpacked_) {
      const auto owner =
          (rank() + unpacked_) % members(); // each member starts with its own share, which is ready
      const auto share = share_of(bytes, owner, members());
      if (share.bytes == 0)
        continue;
      if (owner != rank())
        if (const auto status = channel.await(&member_progress::reduced, owner, step + 1);
            status != wait_status::satisfied)
          return status;
      const std::byte* const reduced = channel.slot(owner, step) + share.from;
      own_stream().for_each(from + share.from, share.bytes, [&](const tensor_stream::piece& piece) {
        copy_output(job_.bundle, piece, reduced + piece.at);
      });
    }
    unpacked_ = 0;
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  const std::byte* own_share(std::size_t from, const chunk_range& share) const {
    return input_in_place(job_.bundle, own_stream().sole_piece(from + share.from, share.bytes));
  }

  std::vector<const std::byte*> inputs_; ///< scratch: where each member's bytes stand
  std::uint32_t unpacked_ = 0;           ///< number of shares of the current chunk that have been unpacked
};

} // namespace

std::unique_ptr<shm_collective> make_allreduce(const shm_job& job) {
  const auto bytes = job.streams.own(job.channel.rank()).bytes();
  if (job.small_chunks && bytes <= std::min(at_once_bytes / job.channel.members(), job.channel.slot_bytes()))
    return std::make_unique<allreduce_at_once>(job);
  return std::make_unique<allreduce_in_chunks>(job);
}

} // namespace farandole
