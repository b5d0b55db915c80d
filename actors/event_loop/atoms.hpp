// Messages without arguments, shared by several actors: commands, notifications and timer ticks.
#pragma once

#include <caf/all.hpp>

namespace farandole {

using call_atom = caf::atom_constant<caf::atom("call")>;
using close_atom = caf::atom_constant<caf::atom("close")>;
using cut_atom = caf::atom_constant<caf::atom("cut")>;
using doorbell_atom = caf::atom_constant<caf::atom("doorbell")>;
using drained_atom = caf::atom_constant<caf::atom("drained")>;
using leave_atom = caf::atom_constant<caf::atom("leave")>;
using look_atom = caf::atom_constant<caf::atom("look")>;
using ready_atom = caf::atom_constant<caf::atom("ready")>;
using retry_atom = caf::atom_constant<caf::atom("retry")>;
using stalled_atom = caf::atom_constant<caf::atom("stalled")>;
using tick_atom = caf::atom_constant<caf::atom("tick")>;
using withdraw_atom = caf::atom_constant<caf::atom("withdraw")>;

} // namespace farandole
