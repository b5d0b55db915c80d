#include "actors/process_set/split_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "messages/values/printable.hpp"

namespace farandole {

split_exchange::split_exchange(std::span<const std::int64_t> splits) : incoming_(splits.size()) {
  assert(!splits.empty());
  const auto limit = *std::max_element(splits.begin(), splits.end());
  outgoing_.reserve(splits.size());
  for (auto rows : splits)
    outgoing_.push_back({rows, limit});
}

work split_exchange::question() {
  work small;
  small.operation = operation::alltoall;
  small.dtype = dtype::int64;
  part part;
  part.input = reinterpret_cast<const std::byte*>(outgoing_.data());
  part.output = reinterpret_cast<std::byte*>(incoming_.data());
  part.input_bytes = outgoing_.size() * sizeof(word);
  small.parts = {part};
  small.sent.assign(outgoing_.size(), sizeof(word));
  small.received = small.sent;
  small.longest = sizeof(word);
  return small;
}

error split_exchange::answer(std::string_view name, std::size_t row_bytes, work& bundle) {
  assert(bundle.parts.size() == 1);
  // Rows without bytes are only counted.
  const auto most_rows = std::numeric_limits<std::int64_t>::max() /
                         static_cast<std::int64_t>(std::max<std::size_t>(row_bytes, 1));
  std::int64_t longest = 0;
  std::int64_t all = 0;
  received_.clear();
  for (std::size_t rank = 0; rank < incoming_.size(); ++rank) {
    const auto& incoming = incoming_[rank];
    if (incoming.rows < 0 || incoming.rows > incoming.limit || incoming.limit > most_rows ||
        incoming.rows > most_rows - all)
      return {error_kind::unknown, printable_name(name) + ": rank " + std::to_string(rank) +
                                       " of the set says that it sends " + std::to_string(incoming.rows) +
                                       " rows here and at most " + std::to_string(incoming.limit) +
                                       " to any rank, which is a contradiction"};
    all += incoming.rows;
    longest = std::max(longest, incoming.limit);
    received_.push_back(incoming.rows);
  }
  bundle.received.clear();
  for (auto rows : received_)
    bundle.received.push_back(static_cast<std::size_t>(rows) * row_bytes);
  bundle.longest = static_cast<std::size_t>(longest) * row_bytes;
  return {};
}

} // namespace farandole
