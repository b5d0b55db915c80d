// Allgather and alltoall with results in the shared result heaps: each member copies its rows directly to
// their place in the receiver's result. It takes one copy and one round.
#include <string>
#include <utility>

#include "collectives/transport/bulk_copy.hpp"
#include "collectives/transport/shm/placed_rows.hpp"

namespace farandole {

namespace {

class placed_rows : public shm_collective {
public:
  placed_rows(const shm_job& job, std::vector<placed_copy> copies)
      : shm_collective(job, 2, 0), copies_(std::move(copies)) {
    cut(1, 1);
  }

private:
  wait_status work_on(std::size_t stage, std::size_t chunk) override {
    return stage == 0 ? write(step_of(chunk)) : finish(step_of(chunk));
  }

  wait_status write(std::uint64_t step) {
    job_.channel.enter(local_phase::pack, step);
    for (const auto& copy : copies_)
      bulk_copy(copy.to, copy.from, copy.bytes);
    job_.channel.publish(&member_progress::packed, step + 1);
    return wait_status::satisfied;
  }

  wait_status finish(std::uint64_t step) {
    auto& channel = job_.channel;
    channel.enter(local_phase::unpack, step);
    if (const auto status = channel.await_all(&member_progress::packed, step + 1);
        status != wait_status::satisfied)
      return status;
    if (const auto agreed = channel.commit(true); agreed != wait_status::satisfied)
      return agreed;
    channel.publish(&member_progress::released, step + 1);
    return wait_status::satisfied;
  }

  const std::vector<placed_copy> copies_;
};

} // namespace

std::unique_ptr<shm_collective> make_placed_rows(const shm_job& job, std::vector<placed_copy> copies) {
  return std::make_unique<placed_rows>(job, std::move(copies));
}

} // namespace farandole
