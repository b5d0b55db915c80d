#include "cuda/fake/fake_nccl_matches_testing.hpp"

#include <algorithm>

#include "cuda/fake/fake_nccl_reduce_testing.hpp"

namespace fake_nccl {

namespace {

using bytes = std::vector<unsigned char>;

const char* name_of(frame_kind kind) {
  switch (kind) {
  case frame_kind::all_reduce:
    return "all-reduce";
  case frame_kind::broadcast:
    return "broadcast";
  case frame_kind::all_gather:
    return "all-gather";
  case frame_kind::reduce_scatter:
    return "reduce-scatter";
  case frame_kind::send:
    return "send";
  default:
    return "receive";
  }
}

std::string describe(std::size_t rank, const frame_header& header) {
  return "rank " + std::to_string(rank) + ": " + name_of(header.kind) + " of " +
         std::to_string(header.count) + " elements of type " + std::to_string(header.type) + ", operator " +
         std::to_string(header.op) + ", root " + std::to_string(header.peer);
}

bool agree(const frame_header& left, const frame_header& right) {
  return left.kind == right.kind && left.type == right.type && left.op == right.op &&
         left.count == right.count && left.peer == right.peer;
}

frame done(const frame& operation, frame_data result) {
  frame_header header;
  header.kind = frame_kind::done;
  header.id = operation.header.id;
  return {header, std::move(result)};
}

frame_data shared(bytes content) {
  return std::make_shared<const bytes>(std::move(content));
}

/// In the order of the ranks.
bytes reduced(const std::vector<frame>& all) {
  const auto& header = all.front().header;
  const auto type = static_cast<ncclDataType_t>(header.type);
  bytes result = *all.front().data;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    reduce(result.data(), all[rank].data->data(), result.size() / element_bytes(type), type,
           static_cast<ncclRedOp_t>(header.op));
  return result;
}

bytes gathered(const std::vector<frame>& all) {
  bytes result;
  for (const auto& part : all)
    result.insert(result.end(), part.data->begin(), part.data->end());
  return result;
}

} // namespace

std::string matches::begin(std::size_t rank, frame operation) {
  const auto peer = static_cast<std::size_t>(operation.header.peer);
  if (operation.header.kind == frame_kind::send || operation.header.kind == frame_kind::receive) {
    const bool sends = operation.header.kind == frame_kind::send;
    const ranks_pair pair = sends ? ranks_pair{rank, peer} : ranks_pair{peer, rank};
    (sends ? sends_ : receives_)[pair].push_back(std::move(operation));
    return match_pair(pair);
  }
  collectives_[rank].push_back(std::move(operation));
  return match_collectives();
}

std::string matches::match_pair(const ranks_pair& pair) {
  auto& sends = sends_[pair];
  auto& receives = receives_[pair];
  if (sends.empty() || receives.empty())
    return {};
  const auto sent = std::move(sends.front());
  const auto received = std::move(receives.front());
  sends.pop_front();
  receives.pop_front();
  if (sent.header.type != received.header.type || sent.header.count != received.header.count)
    return describe(pair.first, sent.header) + "; " + describe(pair.second, received.header);
  give_(pair.first, done(sent, shared({})));
  give_(pair.second, done(received, sent.data));
  return {};
}

std::string matches::match_collectives() {
  if (std::ranges::any_of(collectives_, [](const auto& queue) { return queue.empty(); }))
    return {};
  std::vector<frame> all;
  for (auto& queue : collectives_) {
    all.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (!agree(all.front().header, all[rank].header))
      return describe(0, all.front().header) + "; " + describe(rank, all[rank].header);
  finish_collective(std::move(all));
  return {};
}

void matches::finish_collective(std::vector<frame> all) {
  const auto& header = all.front().header;
  frame_data result;
  if (header.kind == frame_kind::broadcast)
    result = all[static_cast<std::size_t>(header.peer)].data;
  else
    result = shared(header.kind == frame_kind::all_gather ? gathered(all) : reduced(all));
  const auto part = static_cast<std::ptrdiff_t>(result->size() / all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto begin = result->begin() + static_cast<std::ptrdiff_t>(rank) * part;
    give_(rank, done(all[rank],
                     header.kind == frame_kind::reduce_scatter ? shared({begin, begin + part}) : result));
  }
}

} // namespace fake_nccl
