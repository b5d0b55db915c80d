// Messages about stalled tensors: the list that the actors of a process set report to the stall watch, the notice that
// the stall watch sends to the rendezvous, and the report that the rendezvous gives its launcher to explain.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "messages/wire/stalls.hpp"

namespace farandole {

struct generation_broken;

struct stall_list {
  std::vector<stalled_tensor> stalls; ///< oldest first
};

/// Something has changed about the stalls of a process set.
struct stalls_noticed {
  std::uint32_t set_id = 0; ///< the set's id for users
  stall_notice notice;
};

/// Time for the explainer of a stall to answer. A report comes at most one second after the warning time.
inline constexpr std::chrono::milliseconds explanation_time{950};

/// The rendezvous is about to report a stall. The answer is a stall_explained with the same number; without an answer
/// within `explanation_time`, the report is printed as it is.
struct stall_found {
  std::uint64_t number = 0;
  std::string text;                             ///< the report
  std::map<std::int32_t, std::int32_t> missing; ///< the slots of the ranks that others wait for, by rank
};

struct stall_explained {
  std::uint64_t number = 0;
  std::string lines; ///< follow the text of the report; empty: nothing to add
};

using stall_explainer_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<stall_found>>;

/// To the rendezvous: from now on ask this actor to explain stalls.
struct watch_stalls {
  stall_explainer_actor process;
};

/// The part of the member's root interface that the stall watch uses.
using stall_watcher_actor = caf::typed_actor<
    /// Tensors have waited for too long: the member cannot continue in the generation.
    caf::reacts_to<generation_broken>,
    /// Tell the rendezvous.
    caf::reacts_to<stalls_noticed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_list)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stalls_noticed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_found)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_explained)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_stalls)
