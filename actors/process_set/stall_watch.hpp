// Looks for operations of one process set that wait for ranks which have not submitted them, and tells the rendezvous,
// which reports the stalls of the whole job. An operation that waits for longer than the shutdown time ends the
// generation. The watch asks the negotiator about the operations that go through the leader, and the set client of this
// member about those on the fast path. One for each set on each member, unless the stall check is off.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/set_client.hpp"
#include "actors/interfaces/stalls.hpp"
#include "elastic/stall_notices.hpp"
#include "elastic/stall_rules.hpp"
#include "messages/record/event_recorder.hpp"

namespace farandole {

struct stall_watch_setup {
  stall_rules rules;
  negotiator_actor negotiator; ///< null where another member leads
  set_client_actor client;     ///< null where this process is not a member of the set
  stall_watcher_actor member;
  std::shared_ptr<event_recorder> recorder = nullptr; ///< may be null
  std::uint32_t set_id = 0;
};

struct stall_watch_state {
  static inline const char* name = "stall watch";

  explicit stall_watch_state(stall_watch_actor::pointer owner) : self(owner) {}
  /// Reports that nothing is stalled any more: the process set has ended.
  ~stall_watch_state();
  stall_watch_state(const stall_watch_state&) = delete;
  stall_watch_state& operator=(const stall_watch_state&) = delete;

  void begin(stall_watch_setup setup);
  void look();

private:
  template <class Handle>
  void ask(const Handle& handle, stall_source source);
  void judge(const stall_list& waiting, stall_source source);
  void answered();
  void tell(stall_notice notice) const;
  void record(const stall_notice& notice) const;

  stall_watch_actor::pointer self;
  stall_watch_setup setup_;
  std::array<stall_notices, 2> notices_; ///< by stall_source
  std::chrono::nanoseconds longest_{0};  ///< the longest wait that was found in this look
  std::size_t unanswered_ = 0;           ///< questions of this look
};

stall_watch_actor::behavior_type stall_watch(stall_watch_actor::stateful_pointer<stall_watch_state> self,
                                             stall_watch_setup setup);

} // namespace farandole
