// What a link and the listener that accepts it share. Not for anybody else.
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
/// To the listener, once from each link, with its number: it opened or ended.
using settled_atom = caf::atom_constant<caf::atom("settled")>;
/// From the listener, with the reason: end, unless you have opened.
using evicted_atom = caf::atom_constant<caf::atom("evicted")>;

/// Passes what a descriptor reports to an actor, which must own the watch. Until it stops, the watch keeps
/// the actor alive: whichever thread drops the last handle that others have, the loop's thread destroys the
/// state.
descriptor_watch watch_for(caf::event_based_actor* self, descriptor fd);

/// What a link begins with. A socket that comes with it was accepted; otherwise it is made from the target.
struct link_start {
  std::shared_ptr<descriptor> accepted;
  std::string ip;
  std::uint16_t port = 0;
  caf::actor owner;
  caf::actor listener; ///< of an accepted one
  link_id id = 0;
  link_settings settings;
};

caf::actor spawn_link(caf::actor_system& system, const link_start& start);

} // namespace farandole
