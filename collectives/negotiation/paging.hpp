// A message has a largest size. A schedule that would be larger is told in several messages: each keeps the
// order of the parts, so obeying them one after the other comes to the same.
#pragma once

#include <cstddef>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

/// What `from` sends to tell `whole`: messages of at most `most_bytes`, in order. One element of a list is
/// never cut, nor what has changed of the process sets; a message that holds nothing else may be larger.
std::vector<envelope> messages_of(const address& from, schedule whole,
                                  std::size_t most_bytes = std::size_t{8} << 20);

} // namespace farandole
