// Reports of misbehaving members, from the actors of a process set.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>

namespace farandole {

/// A member sent a malformed message or broke the protocol of a set. Its link should be closed.
struct member_fault {
  std::int32_t rank = -1;
  std::uint32_t set = 0;
  std::string reason;
};

using member_watcher_actor = caf::typed_actor<
    /// A member broke the protocol.
    caf::reacts_to<member_fault>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_fault)
