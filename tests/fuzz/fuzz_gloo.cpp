// Feeds arbitrary bytes to the parser of a member's packed addresses for the gloo path. Each place must give
// an address of bounded length or nothing, and packed addresses must be read back unchanged.
#include "collectives/transport/gloo/gloo_address.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

constexpr std::size_t longest_packed = 255;
constexpr std::size_t longest_address = (longest_packed / 2 + 1) * 255;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string packed(text_of(std::as_bytes(std::span(data, size))));
  std::vector<std::string> addresses;
  for (std::size_t place = 0; place < 8; ++place) {
    addresses.push_back(address_at(packed, place));
    require(addresses.back().size() <= longest_address);
    if (packed_addresses(std::span(&addresses.back(), 1)).size() > longest_packed)
      return 0; // Gloo creates no such address
  }
  require(address_at(packed, size + 1).empty());
  const auto again = packed_addresses(addresses);
  for (std::size_t place = 0; place < addresses.size(); ++place)
    require(address_at(again, place) == addresses[place]);
  return 0;
}
