// Tests the connections of one host to the others for the launcher (elastic/reach_check.hpp), in the agent of the host or,
// on the launcher's host, in the launcher: listens at addresses of the host, and dials those of other hosts. The connections
// are links, so that both ends prove the job's secret; they are closed as soon as they are open.
#pragma once

#include <caf/all.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/slot.hpp"
#include "messages/wire/reachability.hpp"

namespace farandole {

using address_tester_actor = link_owner_actor::extend<
    /// Listen at these addresses only, and dial those that were not dialled yet.
    caf::reacts_to<address_test>,
    /// The test is over. The actor ends, and with it its listeners and connections.
    caf::reacts_to<close_atom>,
    /// INTERNAL: the launcher had time to end the test.
    caf::reacts_to<overdue_atom>>;

struct address_tester_spec {
  link_settings links;
  std::function<void(const address_report& report)> report; ///< called on the loop
};

class address_tester_state {
public:
  static inline const char* name = "address tester";

  explicit address_tester_state(address_tester_actor::pointer self) : self_(self) {}

  address_tester_actor::behavior_type begin(const address_tester_spec& spec);

private:
  void test(const address_test& request);
  tested_address listen_at(const std::string& ip);
  void dialled(link_id link, const std::string& problem);

  address_tester_actor::pointer self_;
  address_tester_spec spec_;
  std::map<std::string, caf::actor> listeners_; ///< by address; null if the host cannot listen there
  std::set<std::pair<std::string, std::uint16_t>> dialled_;
  std::map<link_id, tested_address> dialling_; ///< links that have neither opened nor failed
  link_id last_ = 0;
  instant expires_{};
};

address_tester_actor::behavior_type
address_tester(address_tester_actor::stateful_pointer<address_tester_state> self,
               const address_tester_spec& spec);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::address_test)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::address_report)
