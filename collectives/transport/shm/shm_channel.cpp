#include "collectives/transport/shm/shm_channel.hpp"

namespace farandole {

wait_status shm_channel::await_all(counter which, std::uint64_t reached) {
  for (std::uint32_t i = 1; i < members_; ++i)
    if (const auto status = await(which, (rank_ + i) % members_, reached); status != wait_status::satisfied)
      return status;
  return wait_status::satisfied;
}

wait_status shm_channel::await_slot(std::uint64_t step) {
  // While the slots are used for the first time, the value is zero or wraps around below zero. Every
  // counter has reached it.
  return await_all(&member_progress::released, step + 1 - slots());
}

} // namespace farandole
