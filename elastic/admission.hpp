// A process that says hello, or that comes back by another link, names the slot that it has. Here is decided
// whether that seat is its own, and otherwise what to tell it.
#pragma once

#include <cstdint>
#include <optional>

#include "elastic/generation_record.hpp"
#include "elastic/membership_rules.hpp"
#include "elastic/seat_table.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

/// What a process is told whose slot has been taken out by plan.
refused taken_out(std::int32_t slot);

/// Why this hello is turned away; nothing: it may wait for the next generation.
std::optional<refused> objection(const hello& request, const membership_rules& rules,
                                 const seat_table& seats);

struct return_verdict {
  enum class kind : std::uint8_t { resumes, generation_ended, turned_away };
  kind result = kind::resumes;
  refused reason; ///< of one that is turned away
};

/// Whether who comes back by the link `from` is still in the generation that it names.
return_verdict check_return(route from, const returning& request, const seat_table& seats,
                            const generation_record& current);

} // namespace farandole
