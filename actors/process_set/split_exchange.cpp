#include "actors/process_set/split_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "messages/values/printable.hpp"

namespace farandole {

split_exchange::split_exchange(std::span<const std::int64_t> splits) : heard_(splits.size()) {
  assert(!splits.empty());
  const auto limit = *std::max_element(splits.begin(), splits.end());
  told_.reserve(splits.size());
  for (auto rows : splits)
    told_.push_back({rows, limit});
}

work split_exchange::question() {
  work small;
  small.operation = operation::alltoall;
  small.dtype = dtype::int64;
  part part;
  part.input = reinterpret_cast<const std::byte*>(told_.data());
  part.output = reinterpret_cast<std::byte*>(heard_.data());
  part.input_bytes = told_.size() * sizeof(word);
  small.parts = {part};
  small.sent.assign(told_.size(), sizeof(word));
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
  for (std::size_t rank = 0; rank < heard_.size(); ++rank) {
    const auto& heard = heard_[rank];
    if (heard.rows < 0 || heard.rows > heard.limit || heard.limit > most_rows || heard.rows > most_rows - all)
      return {error_kind::unknown, printable_name(name) + ": rank " + std::to_string(rank) +
                                       " of the set says that it sends " + std::to_string(heard.rows) +
                                       " rows here and at most " + std::to_string(heard.limit) +
                                       " to any rank, which is a contradiction"};
    all += heard.rows;
    longest = std::max(longest, heard.limit);
    received_.push_back(heard.rows);
  }
  bundle.received.clear();
  for (auto rows : received_)
    bundle.received.push_back(static_cast<std::size_t>(rows) * row_bytes);
  bundle.longest = static_cast<std::size_t>(longest) * row_bytes;
  return {};
}

} // namespace farandole
