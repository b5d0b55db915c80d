// Messages between launchers and the rendezvous about slots and their processes.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/event_loop/link_id.hpp"
#include "elastic/slot_fate.hpp"
#include "messages/wire/drain.hpp"
#include "messages/wire/failed_host.hpp"
#include "messages/wire/records.hpp"

namespace farandole {

/// The process of a slot has ended. `manner` is text such as "exited with code 3" or "was killed by signal 9".
struct slot_exited {
  std::int32_t slot = 0;
  std::string manner;
};

/// Elastic jobs: the process of a slot is about to be started. The rendezvous refuses processes of other slots.
struct slot_started {
  std::int32_t slot = 0;
  std::string host = {}; ///< name of the host, for messages; empty if it is not known
};

/// Elastic jobs: this slot is to leave as soon as all members end the generation at a commit.
struct slot_retired {
  std::int32_t slot = 0;
};

/// Elastic jobs: training is complete on some worker, so the launcher starts no further processes.
struct no_more_starts {};

/// A generation has started. Its members are those of these slots.
struct generation_formed {
  std::uint64_t generation = 0;
  std::vector<std::int32_t> slots; ///< by rank
};

/// The process of this slot was told to end. It leaves in order, like a retired slot.
struct slot_leaving {
  std::int32_t slot = 0;
};

/// A process that knows the job's secret requests that members leave.
struct drain_asked {
  link_id link = 0;
  drain request;
};

/// The answer to a drain request, for the requester at the other end of this link.
struct drain_answered {
  link_id link = 0;
  draining value;
};

/// A process that knows the job's secret wants the event records of all workers in files.
struct records_wanted {
  link_id link = 0;
  write_records request;
};

/// The answer to that request, for the requester at the other end of this link.
struct records_answered {
  link_id link = 0;
  records_written value;
};

using record_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<records_wanted>>;

/// From now on pass requests for event records to this actor.
struct watch_records {
  record_watcher_actor process;
};

using fate_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<slot_fate>>;

/// From now on report the fate of every slot to this actor.
struct watch_fates {
  fate_watcher_actor process;
};

using generation_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<generation_formed>, caf::reacts_to<slot_leaving>, caf::reacts_to<drain_asked>>;

/// The launcher's blacklist has changed. Lists, by name, all hosts that ever were on it.
struct hosts_failed {
  std::vector<failed_host> hosts;
};

/// From now on report every new generation to this actor.
struct watch_generations {
  generation_watcher_actor process;
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_retired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::no_more_starts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_formed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_asked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_answered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::records_wanted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::records_answered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_records)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_fates)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::hosts_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_generations)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_fate)
