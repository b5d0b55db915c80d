// Times, ranks, operations and tensors of records in words for a terminal, and as JSON for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

double seconds(record_time duration);
/// "2026-11-26 16:48:35 UTC".
std::string time_text(record_time time);
std::string name_text(const tensor_key& tensor);
/// `recorded`: the operation and its flags, as in the record.
std::string operation_text(std::uint8_t recorded);
/// "rank 3", "ranks 0, 1 and 3", "ranks 0 to 7 and 9".
std::string ranks_text(std::span<const std::int32_t> ranks);
/// The same with another noun: "slot 3", "slots 0 and 1".
std::string numbers_text(const std::string& noun, std::span<const std::int32_t> numbers);

std::string json_string(const std::string& text);
std::string json_number(double value);
std::string json_ranks(const std::vector<std::int32_t>& ranks);
/// Two members of an object.
std::string json_tensor(const tensor_key& tensor);

template <class Rows, class Text>
std::string json_list(const Rows& rows, Text text) {
  std::string list = "[";
  for (const auto& row : rows)
    list += (list.size() == 1 ? "" : ", ") + text(row);
  return list + "]";
}

} // namespace farandole
