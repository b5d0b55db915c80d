#include "collectives/negotiation/inline_reduction.hpp"

#include <algorithm>
#include <string>

#include "collectives/math/reduce.hpp"

namespace farandole {

namespace {

// Maximum number of bytes that the leader receives from all members, and sends to all members, for one tensor.
constexpr std::size_t all_members_bytes = std::size_t{64} << 10;
// Number of tensors of the largest size that one message carries. More tensors move faster in a bundle.
constexpr std::size_t largest_tensors = 2;

bool reducible(operation asked_operation, reduce_op op, dtype type) {
  return asked_operation == operation::allreduce && op != reduce_op::adasum && type != dtype::boolean;
}

error refused(const std::string& text) {
  return {error_kind::invalid_argument, text};
}

} // namespace

inline_rules inline_rules::of(std::size_t setting_bytes, std::size_t members) {
  const auto limit =
      std::min({setting_bytes, all_members_bytes / std::max<std::size_t>(members, 1), inline_limit_bytes});
  return {limit, largest_tensors * limit};
}

bool inline_rules::admit(const signature& signature, std::size_t bytes, std::size_t carried_bytes) const {
  return signature.memory == memory_kind::host && bytes > 0 && bytes <= limit_bytes &&
         bytes <= message_bytes - std::min(message_bytes, carried_bytes) &&
         reducible(signature.operation, signature.reduce_op, signature.dtype);
}

error inline_reduction::take(std::int32_t rank, const requests& message) {
  if (message.values.empty())
    return {};
  const auto position = position_of(rank);
  if (!position)
    return refused("it is not in this process set");
  // A message may be long, so ids are looked up in a hash table and not searched for linearly.
  enum class state { asked, sent };
  std::unordered_map<std::uint32_t, state> tensors;
  for (const auto id : message.ids)
    tensors.emplace(id, state::asked);
  for (const auto& value : message.values) {
    const auto found = tensors.find(value.id);
    if (value.bytes.size() > limit_bytes_)
      return refused("an inline tensor of id " + std::to_string(value.id) + " has " +
                     std::to_string(value.bytes.size()) + " bytes, and at most " +
                     std::to_string(limit_bytes_) + " are allowed");
    if (found == tensors.end())
      return refused("the message holds an inline tensor of id " + std::to_string(value.id) +
                     " and does not ask for it");
    if (std::exchange(found->second, state::sent) == state::sent)
      return refused("the message holds the inline tensor of id " + std::to_string(value.id) + " twice");
  }
  for (const auto& value : message.values) {
    auto& row = rows_[value.id];
    row.resize(members_.size());
    row[*position] = value.bytes;
  }
  return {};
}

void inline_reduction::complete(negotiation_result& decided) {
  if (rows_.empty())
    return;
  std::erase_if(decided.ready, [&](const ready_tensor& tensor) {
    const bool done = tensor.id != 0 && reduced(tensor, decided);
    rows_.erase(tensor.id);
    return done;
  });
  for (const auto id : decided.forget)
    rows_.erase(id);
  // The member will answer with the full request of its pending operation, so the value it sent by id is dropped.
  for (const auto& asked : decided.questions)
    if (const auto found = rows_.find(asked.id); found != rows_.end()) {
      if (const auto position = position_of(asked.rank))
        found->second[*position].reset();
      if (std::none_of(found->second.begin(), found->second.end(),
                       [](const auto& entry) { return entry.has_value(); }))
        rows_.erase(found);
    }
}

bool inline_reduction::reduced(const ready_tensor& tensor, negotiation_result& decided) const {
  const auto found = rows_.find(tensor.id);
  if (found == rows_.end() || !reducible(tensor.operation, tensor.reduce_op, tensor.dtype))
    return false;
  const auto& row = found->second;
  if (!std::all_of(row.begin(), row.end(), [](const auto& entry) { return entry.has_value(); }))
    return false;
  const auto bytes = static_cast<std::size_t>(tensor.elements) * size_of(tensor.dtype);
  std::vector<const std::byte*> inputs;
  for (std::size_t position = 0; position < row.size(); ++position) {
    if (row[position]->size() != bytes) {
      decided.breach =
          refused("it sent " + std::to_string(row[position]->size()) + " bytes for the tensor of id " +
                  std::to_string(tensor.id) + ", which has " + std::to_string(bytes));
      decided.broken_by = members_[position];
      return false;
    }
    inputs.push_back(row[position]->data());
  }
  inline_value result{tensor.id, std::vector<std::byte>(bytes)};
  reduce(tensor.dtype, tensor.reduce_op, result.bytes.data(), inputs,
         static_cast<std::size_t>(tensor.elements), tensor.prescale, tensor.postscale, members_.size());
  decided.results.push_back(std::move(result));
  return true;
}

std::size_t inline_reduction::kept() const {
  std::size_t count = 0;
  for (const auto& [id, row] : rows_)
    count += static_cast<std::size_t>(
        std::count_if(row.begin(), row.end(), [](const auto& entry) { return entry.has_value(); }));
  return count;
}

std::optional<std::size_t> inline_reduction::position_of(std::int32_t rank) const {
  const auto found = std::find(members_.begin(), members_.end(), rank);
  if (found == members_.end())
    return std::nullopt;
  return static_cast<std::size_t>(found - members_.begin());
}

} // namespace farandole
