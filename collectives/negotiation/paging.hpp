// Splits schedules that exceed the maximum size of a message into several messages. Each message keeps the order
// of the parts, so applying the messages one after the other has the same effect as applying the whole schedule.
#pragma once

#include <cstddef>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

/// The messages by which `from` sends `whole`, each of at most `most_bytes`, in order. Neither an element of a list
/// nor a change of process sets is ever split; a message that contains nothing else may be larger.
std::vector<envelope> messages_of(const address& from, schedule whole,
                                  std::size_t most_bytes = std::size_t{8} << 20);

} // namespace farandole
