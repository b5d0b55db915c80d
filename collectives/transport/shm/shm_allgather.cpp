// Allgather in shared memory, with one round for each chunk. Each member publishes chunk k of its rows
// while the other members read chunk k-1.
#include "collectives/transport/bulk_copy.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

namespace {

class allgather_in_chunks : public shm_collective {
public:
  explicit allgather_in_chunks(const shm_job& job) : shm_collective(job, 2, 1) {
    cut(job.streams.longest(), job.channel.slot_bytes());
  }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? pack(chunk) : unpack(chunk);
  }

  wait_status pack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::pack, step);
    const auto [from, bytes] = chunk_of(own_stream(), chunk);
    if (bytes > 0) {
      if (const auto status = channel.await_slot(step); status != wait_status::satisfied)
        return status;
      std::byte* const own = channel.own_slot(step, bytes);
      own_stream().for_each(from, bytes, [&](const tensor_stream::piece& piece) {
        copy_input(job_.bundle, piece, own + piece.at);
      });
    }
    channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  wait_status unpack(std::size_t chunk) {
    auto& channel = job_.channel;
    const auto step = step_of(chunk);
    channel.enter(local_phase::unpack, step);
    if (const auto agreed = await_output(&member_progress::packed, chunk); agreed != wait_status::satisfied)
      return agreed;
    for (; unpacked_ < members(); ++unpacked_) {
      const auto source = (rank() + unpacked_) % members();
      const auto& stream = job_.streams.sent[source];
      const auto [from, bytes] = chunk_of(stream, chunk);
      if (bytes == 0)
        continue;
      if (source != rank())
        if (const auto status = channel.await(&member_progress::packed, source, step + 1);
            status != wait_status::satisfied)
          return status;
      stream.for_each(from, bytes, [&, base = channel.slot(source, step)](const tensor_stream::piece& piece) {
        std::byte* const output = job_.bundle.parts[piece.part].output +
                                  start_of(job_.bundle.gathered, piece.part, source, members());
        bulk_copy(output + piece.offset, base + piece.at, piece.bytes);
      });
    }
    unpacked_ = 0;
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  std::uint32_t unpacked_ = 0; ///< number of members whose rows of this chunk have been copied
};

} // namespace

std::unique_ptr<shm_collective> make_allgather(const shm_job& job) {
  return std::make_unique<allgather_in_chunks>(job);
}

} // namespace farandole
