// The rendezvous: where members meet, and what launchers tell it (actors/rendezvous/rendezvous.hpp).
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
struct nobody_comes;
struct slot_exited;
struct slot_retired;
struct slot_started;
struct watch_fates;
struct watch_generations;

/// INTERNAL: the members that an ended generation's successor waits for, or that have not come back to a
/// rendezvous which was started again, may have had their time.
struct regroup_overdue {};

/// INTERNAL: it is time to tell members that wait who is missing.
struct missing_due {};

/// INTERNAL: the launcher has had its time to report the slot of the process behind this link.
struct slot_unreported {
  link_id link = 0;
};

/// INTERNAL: a link to a slot's member has been down for a while and no exit was reported.
struct link_stayed_down {
  link_id link = 0;
  std::string reason;
};

/// INTERNAL: a member said this of itself or, a while ago, of another.
struct member_reported {
  link_id link = 0;
  lost loss;
};

/// INTERNAL: what accepts links for the rendezvous; it lives as long as its owner.
struct listener_started {
  caf::actor handle;
};

using rendezvous_actor =
    caf::typed_actor<caf::reacts_to<listener_started>,
                     /// From the host driver.
                     caf::reacts_to<slot_exited>, caf::reacts_to<slot_started>, caf::reacts_to<slot_retired>,
                     caf::reacts_to<nobody_comes>, caf::reacts_to<hosts_failed>,
                     caf::reacts_to<watch_generations>, caf::reacts_to<watch_fates>,
                     caf::reacts_to<drain_answered>, caf::reacts_to<link_stayed_down>,
                     caf::reacts_to<slot_unreported>, caf::reacts_to<member_reported>,
                     caf::reacts_to<regroup_overdue>, caf::reacts_to<missing_due>,
                     /// Refuse new members, close all links, end.
                     caf::reacts_to<close_atom>, caf::reacts_to<link_opened>, caf::reacts_to<link_received>,
                     caf::reacts_to<link_closed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::regroup_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::missing_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_stayed_down)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_unreported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_reported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::listener_started)
