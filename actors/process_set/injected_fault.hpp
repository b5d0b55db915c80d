// Faults on purpose, for tests: one actor of one process set fails when the n-th message from another member
// is on its way to it, or to one of its siblings. Where no fault is wanted nothing of this exists; where one
// is, an actor stands between the message router and who is counted.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct set_entered;

struct injected_fault {
  std::uint32_t set = 1; ///< id
  std::int32_t rank = 0; ///< global, of the process in which it happens
  std::string actor; ///< that fails: negotiator, scheduler, address exchange, relay actor, worker or mover
  std::string at;    ///< whose messages are counted; not the scheduler, to whom none come from outside
  std::uint64_t message = 1; ///< how many still may come; shared by all that come after
  std::uint64_t times = 1;   ///< how many such messages are followed by a fault, one after the other
};

using injected_faults = std::vector<std::shared_ptr<injected_fault>>;

/// Has those that concern this set and rank stand in for who is counted, in what the message router is about to learn.
void inject(const injected_faults& faults, caf::actor_system& system, std::uint32_t set, std::int32_t rank,
            const caf::actor_addr& scheduler, set_entered& routes);

/// From "set=1,rank=0,actor=worker,at=worker,message=3,times=1", and more behind semicolons.
expected<injected_faults> read_faults(std::string_view text);

} // namespace farandole
