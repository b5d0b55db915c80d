// Internal: shared by links and the listener that accepts them. Not for use by other components.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/loop.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

using readable_atom = caf::atom_constant<caf::atom("readable")>;
using writable_atom = caf::atom_constant<caf::atom("writable")>;
using hangup_atom = caf::atom_constant<caf::atom("hangup")>;
/// From each accepted link to its listener, once, with the link's id: the link has opened or ended.
using settled_atom = caf::atom_constant<caf::atom("settled")>;
/// From the listener to a link, with the reason: the link must end unless it has opened already.
using evicted_atom = caf::atom_constant<caf::atom("evicted")>;

/// Forwards the events of a descriptor to an actor, which must own the watch. The watch keeps the actor alive until
/// it is stopped. So the loop's thread destroys the actor's state, even if another thread drops the last other
/// handle.
descriptor_watch watch_for(caf::event_based_actor* self, descriptor fd);

/// The arguments of a new link. With `accepted` the link uses this accepted socket; otherwise it dials `ip` and
/// `port`.
struct link_start {
  std::shared_ptr<descriptor> accepted;
  std::string ip;
  std::uint16_t port = 0;
  caf::actor owner;
  caf::actor listener; ///< of an accepted link; null for a dialling link
  link_id id = 0;
  link_settings settings;
};

caf::actor spawn_link(caf::actor_system& system, const link_start& start);

} // namespace farandole
