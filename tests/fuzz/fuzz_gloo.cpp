// Any bytes, as the addresses that a member tells the others for the gloo path: each place holds an address
// of bounded length or nothing; what is packed comes out as it was.
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
      return 0; // none that Gloo makes
  }
  require(address_at(packed, size + 1).empty());
  const auto again = packed_addresses(addresses);
  for (std::size_t place = 0; place < addresses.size(); ++place)
    require(address_at(again, place) == addresses[place]);
  return 0;
}
