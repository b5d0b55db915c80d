// What actors of a process set say of its members.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>

namespace farandole {

/// A member sent what cannot be read, or broke the protocol of a set; its link should be closed.
struct member_fault {
  std::int32_t rank = -1;
  std::uint32_t set = 0;
  std::string reason;
};

using member_watcher_actor = caf::typed_actor<
    /// A member misbehaved.
    caf::reacts_to<member_fault>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_fault)
