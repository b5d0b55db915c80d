// How a generation ends on a member, in order or not, and who is to blame for it.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>

#include "messages/departure.hpp"
#include "messages/error.hpp"

namespace farandole {

/// The generation is over for this member, and why. What was not started fails with it.
struct generation_over {
  error why;
};

/// The generation has ended in order, because a member left.
struct generation_ended {
  departed_member departed;
  bool interrupted = false; ///< operations were pending here
  error why;                ///< with which they failed
};

/// This process leaves the job in order.
struct leave_request {
  departure how;
};

/// Something in this member's part of the generation broke; it cannot go on.
struct generation_broken {
  std::string reason;
  error_kind kind = error_kind::unknown;
};

/// A member sent what cannot be read, or broke the protocol of a set; its link should be closed.
struct member_fault {
  std::int32_t rank = -1;
  std::uint32_t set = 0;
  std::string reason;
};

struct operations_held_up;

/// The part of the member's root that the actors of its process sets see.
using member_watcher_actor = caf::typed_actor<
    /// A member misbehaved.
    caf::reacts_to<member_fault>,
    /// An actor of the generation broke.
    caf::reacts_to<generation_broken>,
    /// The leader has ended the generation in order.
    caf::reacts_to<generation_ended>,
    /// Operations wait for a silent member.
    caf::reacts_to<operations_held_up>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::leave_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_broken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_fault)
