// What negotiation costs the leader of a large job, as a page for docs/scale.md: messages and bytes counted
// in the simulated world, time taken on this machine.
#pragma once

#include <iosfwd>

namespace farandole::testing {

void write_scale(std::ostream& page);
/// The part about regroups alone.
void write_regroup_scale(std::ostream& page);

} // namespace farandole::testing
