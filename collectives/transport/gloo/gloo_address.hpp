// The path address of a member: one string with an address for each of the other members, since Gloo listens
// once for each peer. Most bytes of Gloo's addresses are zero. Runs of zeros are sent as their length,
// because the rendezvous transfers N² addresses.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace farandole {

std::string packed_addresses(std::span<const std::string> addresses);

/// The address at index `place`; empty if there is none, or if `packed` is not from packed_addresses().
std::string address_at(const std::string& packed, std::size_t place);

} // namespace farandole
