// Admission checks of the rendezvous. A process that sends a hello, or that reconnects over a new link, names
// its slot. These functions decide whether the process may take that slot, and otherwise the
// reason that it is given.
#pragma once

#include <cstdint>
#include <optional>

#include "elastic/generation_record.hpp"
#include "elastic/membership_rules.hpp"
#include "elastic/slot_table.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

/// The refusal of a process whose slot has been removed from the job by plan.
refused taken_out(std::int32_t slot);

/// Why this hello is refused; empty if the process may wait for the next generation.
std::optional<refused> objection(const hello& request, const membership_rules& rules,
                                 const slot_table& table);

struct return_decision {
  enum class kind : std::uint8_t { resumes, generation_ended, turned_away };
  kind result = kind::resumes;
  refused reason; ///< only of kind turned_away
};

/// Whether the member that reconnects over the link `from` is still in the generation that it names.
return_decision check_return(link_id from, const returning& request, const slot_table& table,
                             const generation_record& current);

} // namespace farandole
