// Messages about the end of a generation on a member: in order, or because of a failure.
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
  bool interrupted = false; ///< operations of this member were pending
  error reason;             ///< the error with which these operations failed
};

/// This process leaves the job in order.
struct leave_request {
  departure manner;
};

/// A component of this member has failed, so the member cannot continue in the generation.
struct generation_broken {
  std::string reason;
  error_kind kind = error_kind::unknown;
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::leave_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_broken)
