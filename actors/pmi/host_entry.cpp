#include "actors/pmi/host_entry.hpp"

#include <algorithm>

#include "actors/pmi/pmi_line.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_bytes = 900;
constexpr char separator = ';';
constexpr char assignment = '/'; ///< no name of an interface contains it

bool is_digest(std::string_view text) {
  constexpr std::size_t most_digits = 128;
  return !text.empty() && text.size() <= most_digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

} // namespace

std::string encode_host_entry(const pmi_entry& entry) {
  auto text = entry.digest;
  for (const auto& address : entry.addresses) {
    const auto field = address.interface + assignment + address.address;
    const bool can_be_written = is_pmi_value(field) && field.find(separator) == std::string::npos &&
                                std::ranges::count(field, assignment) == 1;
    if (can_be_written && text.size() + 1 + field.size() <= most_bytes)
      text += separator + field;
  }
  return text;
}

expected<pmi_entry> parse_host_entry(std::string_view text, std::int32_t rank) {
  constexpr std::size_t quoted_bytes = 40;
  const auto quoted = text.substr(0, quoted_bytes);
  pmi_entry entry{std::string(text.substr(0, text.find(separator))), {}};
  bool is_valid = is_digest(entry.digest);
  for (auto end = text.find(separator); is_valid && end != std::string_view::npos;
       end = text.find(separator)) {
    text.remove_prefix(end + 1);
    const auto field = text.substr(0, text.find(separator));
    const auto middle = field.find(assignment);
    is_valid = middle != std::string_view::npos && middle > 0 && middle + 1 < field.size();
    if (is_valid)
      entry.addresses.push_back(
          {std::string(field.substr(0, middle)), std::string(field.substr(middle + 1))});
  }
  if (!is_valid)
    return error{error_kind::unknown,
                 "rank " + std::to_string(rank) + " published '" + printable_name(quoted) +
                     "' as the addresses of its host, which is no list of addresses: install "
                     "the same version of Farandole on all hosts"};
  return entry;
}

} // namespace farandole
