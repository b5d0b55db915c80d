#include "actors/gpu/device_agreement.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "cuda/nccl/nccl_facts.hpp"

namespace farandole {

namespace {

static_assert(std::is_trivially_copyable_v<device_statement>);

using decision = device_agreement::decision;

decision never(std::string reason) {
  return {decision::kind::never, std::move(reason)};
}

// The text may come from another member, so its end is not taken for granted.
std::string text_of(const std::array<char, 256>& reason) {
  return {reason.begin(), std::find(reason.begin(), reason.end(), '\0')};
}

} // namespace

device_statement device_statement::able(std::int32_t version, const gpu_uuid& gpu, bool shares_gpu) {
  device_statement statement;
  statement.stated = kind::able;
  statement.version = version;
  statement.gpu = gpu;
  statement.shares_gpu = shares_gpu;
  return statement;
}

device_statement device_statement::absent() {
  device_statement statement;
  statement.stated = kind::absent;
  return statement;
}

device_statement device_statement::unable(std::string_view reason, kind stated) {
  device_statement statement;
  statement.stated = stated;
  const auto length = std::min(reason.size(), statement.reason.size() - 1);
  std::copy_n(reason.begin(), length, statement.reason.begin());
  return statement;
}

work device_agreement::question() {
  work small;
  small.operation = operation::allgather;
  small.dtype = dtype::uint8;
  part part;
  part.input = reinterpret_cast<const std::byte*>(&own_);
  part.output = reinterpret_cast<std::byte*>(all_.data());
  part.input_bytes = sizeof own_;
  small.parts = {part};
  small.gathered.assign(all_.size(), sizeof own_);
  return small;
}

decision device_agreement::answer(const std::vector<device_member>& members) const {
  assert(members.size() == all_.size());
  for (const auto refusal : {device_statement::kind::unable, device_statement::kind::late})
    for (std::size_t rank = 0; rank < all_.size(); ++rank)
      if (all_[rank].stated == refusal)
        return never(members[rank].name + ": " + text_of(all_[rank].reason));
  for (std::size_t rank = 0; rank < all_.size(); ++rank)
    if (all_[rank].stated == device_statement::kind::absent)
      return {decision::kind::later,
              members[rank].name + " has joined, and had no tensor on this GPU before"};
  for (std::size_t rank = 1; rank < all_.size(); ++rank)
    if (all_[rank].version != all_.front().version)
      return never(members.front().name + " has NCCL " + nccl_version_text(all_.front().version) + ", and " +
                   members[rank].name + " has NCCL " + nccl_version_text(all_[rank].version) +
                   "; install the same version on all hosts");
  if (!std::ranges::all_of(all_, &device_statement::shares_gpu))
    for (std::size_t rank = 1; rank < all_.size(); ++rank)
      for (std::size_t other = 0; other < rank; ++other)
        if (all_[rank].gpu == all_[other].gpu && members[rank].host == members[other].host)
          return never(members[other].name + " and " + members[rank].name +
                       " use the same GPU, which NCCL does not allow; give each a GPU of its own, as with "
                       "torch.cuda.set_device(hvd.local_rank())");
  return {decision::kind::agreed, {}, all_.front().id};
}

} // namespace farandole
