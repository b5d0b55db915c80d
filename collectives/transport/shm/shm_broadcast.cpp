// Broadcast and barrier in shared memory, with one round for each chunk. In a broadcast all members copy
// from the slot of the root to their outputs.
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

namespace {

class broadcast_in_chunks : public shm_collective {
public:
  explicit broadcast_in_chunks(const shm_job& job)
      : shm_collective(job, 2, 0), root_(static_cast<std::uint32_t>(job.bundle.root)) {
    const auto bytes = own_stream().bytes();
    const auto room = job.channel.slot_bytes();
    const auto wanted = job.small_chunks ? bytes / 8 : bytes;
    cut(bytes, std::clamp(rounded_up(wanted, share_alignment), std::min(least_chunk_bytes, room), room));
  }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    if (stage == 0)
      return rank() == root_ ? pack(chunk) : wait_status::satisfied;
    const auto status = rank() == root_ ? job_.channel.commit(is_last(chunk)) : unpack(chunk);
    if (status == wait_status::satisfied)
      job_.channel.publish(&member_progress::released, step_of(chunk) + 1);
    return status;
  }

  wait_status pack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    const auto& bundle = job_.bundle;
    channel.enter(local_phase::pack, step);
    if (const auto status = channel.await_slot(step); status != wait_status::satisfied)
      return status;
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    std::byte* const own = channel.own_slot(step, bytes);
    own_stream().for_each(from, bytes, [&](const tensor_stream::piece& piece) {
      copy_input(bundle, piece, own + piece.at);
      if (bundle.parts[piece.part].output != bundle.parts[piece.part].input)
        copy_output(bundle, piece, own + piece.at);
    });
    channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  wait_status unpack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::unpack, step);
    if (const auto status = channel.await(&member_progress::packed, root_, step + 1);
        status != wait_status::satisfied)
      return status;
    if (const auto agreed = channel.commit(is_last(chunk)); agreed != wait_status::satisfied)
      return agreed;
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    own_stream().for_each(from, bytes,
                          [&, base = channel.slot(root_, step)](const tensor_stream::piece& piece) {
                            copy_output(job_.bundle, piece, base + piece.at);
                          });
    return wait_status::satisfied;
  }

  const std::uint32_t root_;
};

class barrier_round : public shm_collective {
public:
  explicit barrier_round(const shm_job& job) : shm_collective(job, 2, 0) { cut(1, 1); }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(stage == 0 ? local_phase::pack : local_phase::unpack, step);
    if (stage == 0) {
      channel.publish(&member_progress::packed, step + 1);
      return wait_status::satisfied;
    }
    if (const auto status = channel.await_all(&member_progress::packed, step + 1);
        status != wait_status::satisfied)
      return status;
    channel.publish(&member_progress::released, step + 1);
    return channel.commit(true);
  }
};

} // namespace

std::unique_ptr<shm_collective> make_broadcast(const shm_job& job) {
  return std::make_unique<broadcast_in_chunks>(job);
}

std::unique_ptr<shm_collective> make_barrier(const shm_job& job) {
  return std::make_unique<barrier_round>(job);
}

} // namespace farandole
