// How a generation ends on a member, in order or not, and who is to blame for it.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>

#include "messages/values/error.hpp"
#include "messages/wire/departure.hpp"

namespace farandole {

/// The generation has ended in order, because a member left.
struct generation_ended {
  departed_member departed;
  bool interrupted = false; ///< operations were pending here
  error reason;             ///< with which they failed
};

/// This process leaves the job in order.
struct leave_request {
  departure manner;
};

/// Something in this member's part of the generation broke; it cannot go on.
struct generation_broken {
  std::string reason;
  error_kind kind = error_kind::unknown;
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::leave_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_broken)
