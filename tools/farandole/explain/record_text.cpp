#include "tools/farandole/explain/record_text.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

double seconds(record_time duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

std::string time_text(record_time time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t number = whole.count();
  std::tm parts{};
  ::gmtime_r(&number, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string name_text(const tensor_key& tensor) {
  const auto name =
      tensor.name.empty() ? std::string("a tensor without a recorded name") : printable_name(tensor.name);
  return name + (tensor.set == 0 ? "" : " of process set " + std::to_string(tensor.set));
}

std::string operation_text(std::uint8_t recorded) {
  const auto number = static_cast<std::uint8_t>(recorded & ~adasum_detail);
  const auto name = number < operation_count ? std::string(row_of(static_cast<operation>(number)).name)
                                             : "operation " + std::to_string(number);
  return (recorded & adasum_detail) != 0 ? name + " with Adasum" : name;
}

std::string ranks_text(std::span<const std::int32_t> ranks) {
  return numbers_text("rank", ranks);
}

std::string numbers_text(const std::string& noun, std::span<const std::int32_t> numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    auto end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    if (end - i >= 3) {
      parts.push_back(std::to_string(numbers[i]) + " to " + std::to_string(numbers[end - 1]));
    } else {
      for (auto position = i; position < end; ++position)
        parts.push_back(std::to_string(numbers[position]));
    }
    i = end;
  }
  std::string text = noun + (numbers.size() == 1 ? " " : "s ");
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string json_string(const std::string& text) {
  return json_text(printable_name(text));
}

std::string json_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9f", value);
  return text.data();
}

std::string json_ranks(const std::vector<std::int32_t>& ranks) {
  return json_list(ranks, [](std::int32_t rank) { return std::to_string(rank); });
}

std::string json_tensor(const tensor_key& tensor) {
  return "\"tensor\": " + json_string(tensor.name) + ", \"set\": " + std::to_string(tensor.set);
}

} // namespace farandole
