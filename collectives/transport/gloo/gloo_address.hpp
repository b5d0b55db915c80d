// What a member announces: where it expects each of the others, in one string. Gloo listens once for each
// peer, and most of an address of Gloo's is zeros; these are counted instead of sent, for the rendezvous
// carries N² addresses.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace farandole {

std::string packed_addresses(std::span<const std::string> addresses);

/// The address at `place`; empty where there is none, or nothing that packed_addresses() has made.
std::string address_at(const std::string& packed, std::size_t place);

} // namespace farandole
