// Fault injection for tests: one actor of one process set fails when the n-th message from another member is on its
// way to it, or to one of its siblings. Without a fault, none of this exists. With one, an extra actor stands
// between the message router and the actor whose messages are counted.
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
  /// The actor that fails: negotiator, scheduler, address_exchange, relay, set_client
  /// or path_connector.
  std::string actor;
  /// The actor whose messages are counted; not the scheduler, which receives none from other members.
  std::string at;
  /// The fault happens at the n-th message from now. All actors of this name share the count, also after restarts.
  std::uint64_t message = 1;
  std::uint64_t times = 1; ///< number of faults; each further one happens at the very next message
};

using injected_faults = std::vector<std::shared_ptr<injected_fault>>;

/// Applies the faults of this set and rank to `routes`, before the message router learns them: replaces each actor
/// whose messages are counted by one that counts and forwards them.
void inject(const injected_faults& faults, caf::actor_system& system, std::uint32_t set, std::int32_t rank,
            const caf::actor_addr& scheduler, set_entered& routes);

/// Parses "set=1,rank=0,actor=set_client,at=set_client,message=3,times=1"; semicolons separate several faults.
expected<injected_faults> read_faults(std::string_view text);

} // namespace farandole
