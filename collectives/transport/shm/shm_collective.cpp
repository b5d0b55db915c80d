#include "collectives/transport/shm/shm_collective.hpp"

#include "collectives/operation.hpp"

namespace farandole {

void member_streams::lay_out(const work& bundle, std::uint32_t members) {
  const auto by_member = [members](std::vector<tensor_stream>& streams,
                                   const std::vector<std::size_t>& sizes) {
    streams.resize(members);
    for (auto& stream : streams)
      stream.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      streams[i % members].append(sizes[i]);
  };
  switch (row_of(bundle.operation).rows) {
  case row_use::gathered:
    return by_member(sent, bundle.gathered);
  case row_use::dealt:
    by_member(received, bundle.received);
    [[fallthrough]];
  case row_use::segmented:
    return by_member(sent, bundle.sent);
  case row_use::whole:
    sent.resize(1);
    sent[0].clear();
    for (const auto& part : bundle.parts)
      sent[0].append(part.input_bytes);
  }
}

std::size_t member_streams::longest() const {
  std::size_t bytes = 0;
  for (const auto& stream : sent)
    bytes = std::max(bytes, stream.bytes());
  return bytes;
}

wait_status shm_collective::run() {
  if (chunks_ == 0)
    return job_.channel.commit(true);
  for (const auto turns = chunks_ + (stages_ - 1) * lag_; turn_ < turns; ++turn_, stage_ = 0)
    for (; stage_ < stages_; ++stage_) {
      const auto behind = stage_ * lag_;
      if (turn_ < behind || turn_ - behind >= chunks_)
        continue;
      if (const auto status = work_on(stage_, turn_ - behind); status != wait_status::satisfied)
        return status;
    }
  return wait_status::satisfied;
}

wait_status shm_collective::await_output(shm_channel::counter which, std::size_t chunk) {
  const bool last = is_last(chunk);
  if (last)
    if (const auto status = job_.channel.await_all(which, step_of(chunk) + 1);
        status != wait_status::satisfied)
      return status;
  return job_.channel.commit(last);
}

std::unique_ptr<shm_collective> make_collective(const shm_job& job) {
  switch (job.bundle.operation) {
  case operation::allreduce:
    return make_allreduce(job);
  case operation::allgather:
    return make_allgather(job);
  case operation::broadcast:
    return make_broadcast(job);
  case operation::alltoall:
    return make_alltoall(job);
  case operation::reducescatter:
    return make_reducescatter(job);
  case operation::barrier:
  case operation::join:
    break;
  }
  return make_barrier(job);
}

} // namespace farandole
