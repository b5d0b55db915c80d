// Writes docs/scale.md: the cost of negotiation for the leader of a large job. Messages and bytes are counted
// in the simulated world; times are measured on this machine.
#pragma once

#include <iosfwd>

namespace farandole::testing {

void write_scale(std::ostream& page);
/// Writes only the part about regroups.
void write_regroup_scale(std::ostream& page);

} // namespace farandole::testing
