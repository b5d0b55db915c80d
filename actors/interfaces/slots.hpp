// What launchers and the rendezvous tell each other of slots and their processes.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/event_loop/link_id.hpp"
#include "elastic/slot_fate.hpp"
#include "messages/wire/drain.hpp"
#include "messages/wire/failed_host.hpp"

namespace farandole {

/// The process of a slot has ended, and how: "exited with code 3", "was killed by signal 9".
struct slot_exited {
  std::int32_t slot = 0;
  std::string manner;
};

/// Elastic jobs: the process of a slot is about to be started; others are turned away.
struct slot_started {
  std::int32_t slot = 0;
  std::string host = {}; ///< its name, for people; empty: not known
};

/// Elastic jobs: this slot is to leave, once all members end the generation at a commit.
struct slot_retired {
  std::int32_t slot = 0;
};

/// Elastic jobs: training has come to its end somewhere, and no process is started any more.
struct nobody_comes {};

/// These slots' members are a generation from now on.
struct generation_formed {
  std::uint64_t generation = 0;
  std::vector<std::int32_t> slots; ///< by rank
};

/// The process of this slot was told to end: it is to leave, as if retired.
struct slot_leaving {
  std::int32_t slot = 0;
};

/// Somebody who knows the job's secret wants members out.
struct drain_asked {
  link_id link = 0;
  drain request;
};

/// The answer, for the one behind this link.
struct drain_answered {
  link_id link = 0;
  draining value;
};

using fate_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<slot_fate>>;

/// Tell this one of the fate of every slot from now on.
struct watch_fates {
  fate_watcher_actor process;
};

using generation_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<generation_formed>, caf::reacts_to<slot_leaving>, caf::reacts_to<drain_asked>>;

/// The launcher's blacklist has changed: all hosts that ever were on it, by name.
struct hosts_failed {
  std::vector<failed_host> hosts;
};

/// Tell this one of every generation that forms from now on.
struct watch_generations {
  generation_watcher_actor process;
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_retired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::nobody_comes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_formed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_asked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_answered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_fates)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::hosts_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_generations)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_fate)
