#include "collectives/transport/gloo/gloo_address.hpp"

#include <algorithm>
#include <cassert>

namespace farandole {
namespace {

constexpr std::size_t longest_run = 255;

/// Each run of zeros becomes a zero and its length.
std::string without_zeros(const std::string& bytes) {
  std::string result;
  for (std::size_t at = 0; at < bytes.size();) {
    if (bytes[at] != 0) {
      result += bytes[at++];
      continue;
    }
    const std::size_t end = std::min(bytes.find_first_not_of('\0', at), bytes.size());
    const std::size_t run = std::min(end - at, longest_run);
    result += '\0';
    result += static_cast<char>(run);
    at += run;
  }
  return result;
}

std::string with_zeros(const std::string& bytes) {
  std::string result;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    if (bytes[at] != 0)
      result += bytes[at];
    else if (++at < bytes.size())
      result.append(static_cast<unsigned char>(bytes[at]), '\0');
  return result;
}

} // namespace

std::string packed_addresses(std::span<const std::string> addresses) {
  std::string result;
  for (const std::string& address : addresses) {
    const std::string bytes = without_zeros(address);
    assert(bytes.size() <= 255 && "Gloo's addresses have at most 192 bytes, most of them zeros");
    result += static_cast<char>(bytes.size());
    result += bytes;
  }
  return result;
}

std::string address_at(const std::string& packed, std::size_t place) {
  for (std::size_t at = 0; at < packed.size(); --place) {
    const std::size_t length = static_cast<unsigned char>(packed[at]);
    if (place == 0)
      return at + 1 + length <= packed.size() ? with_zeros(packed.substr(at + 1, length)) : std::string{};
    at += 1 + length;
  }
  return {};
}

} // namespace farandole
