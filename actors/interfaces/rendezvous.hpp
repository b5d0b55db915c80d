// The interface of the rendezvous, for launchers and for its own timers (actors/rendezvous/rendezvous.hpp).
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/link_id.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct drain_answered;
struct hosts_failed;
struct link_closed;
struct link_opened;
struct link_received;
struct no_more_starts;
struct records_answered;
struct slot_exited;
struct slot_retired;
struct slot_started;
struct stall_explained;
struct watch_fates;
struct watch_generations;
struct watch_stalls;
struct watch_records;

/// INTERNAL: the regroup timeout may have expired, for members that the next generation waits for, or for members
/// that have not returned to a restarted rendezvous.
struct regroup_overdue {};

/// INTERNAL: it is time to tell waiting members which members are missing.
struct missing_due {};

/// INTERNAL: the time for the launcher to report the slot of the process at the other end of this link is over.
struct slot_unreported {
  link_id link = 0;
};

/// INTERNAL: it may be time to report a stall again.
struct stalls_due {};

/// INTERNAL: the time to explain the stall of this number is over.
struct stall_unexplained {
  std::uint64_t number = 0;
};

/// INTERNAL: a member's link has been closed for a while, and the host driver has reported no exit that explains it.
struct link_stayed_down {
  link_id link = 0;
  std::string reason;
};

/// INTERNAL: a member has reported a loss: its own, or, after a delay, that of another member.
struct member_reported {
  link_id link = 0;
  lost loss;
};

/// INTERNAL: the listener that accepts links for the rendezvous. It lives as long as its owner.
struct listener_started {
  caf::actor handle;
};

using rendezvous_actor = caf::typed_actor<
    caf::reacts_to<listener_started>,
    /// From the host driver.
    caf::reacts_to<slot_exited>, caf::reacts_to<slot_started>, caf::reacts_to<slot_retired>,
    caf::reacts_to<no_more_starts>, caf::reacts_to<hosts_failed>, caf::reacts_to<watch_generations>,
    caf::reacts_to<watch_fates>, caf::reacts_to<watch_stalls>, caf::reacts_to<stall_explained>,
    caf::reacts_to<drain_answered>, caf::reacts_to<watch_records>, caf::reacts_to<records_answered>,
    caf::reacts_to<link_stayed_down>, caf::reacts_to<slot_unreported>, caf::reacts_to<member_reported>,
    caf::reacts_to<regroup_overdue>, caf::reacts_to<missing_due>, caf::reacts_to<stalls_due>,
    caf::reacts_to<stall_unexplained>,
    /// Refuse new members, close all links, then end.
    caf::reacts_to<close_atom>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::regroup_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::missing_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stalls_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_unexplained)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_stayed_down)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_unreported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_reported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::listener_started)
