// For tests: a message as the receiving process decodes it.
#pragma once

#include <catch2/catch.hpp>

#include "messages/wire/envelope.hpp"

namespace farandole {

inline envelope travelled(const envelope& message) {
  auto result = envelope::parse(message.bytes());
  REQUIRE(result);
  return *result;
}

} // namespace farandole
