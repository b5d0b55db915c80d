#include "actors/rendezvous/reachable_address.hpp"

#include <caf/all.hpp>

#include <future>
#include <map>
#include <memory>
#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/loop.hpp"

namespace farandole {

namespace {

using answer = std::promise<expected<std::string>>;

struct search_state {
  static inline const char* name = "search for an address";
  std::map<link_id, std::string> dialled; ///< the addresses that have neither answered nor failed
  std::string failures;
  std::shared_ptr<answer> found;
};

caf::behavior search(caf::stateful_actor<search_state>* self, const std::vector<std::string>& ips,
                     std::uint16_t port, const link_settings& links, std::shared_ptr<answer> found) {
  auto& state = self->state;
  state.found = std::move(found);
  for (const auto& ip : ips) {
    const auto number = static_cast<link_id>(state.dialled.size() + 1);
    state.dialled[number] = ip;
    dial(self->system(), ip, port, caf::actor_cast<caf::actor>(self), number, links);
  }
  return {
      [self](const link_opened& event) {
        self->state.found->set_value(self->state.dialled.at(event.link));
        self->quit(); // which ends all links
      },
      [](const link_received&) {},
      [self](const link_closed& event) {
        auto& ended = self->state;
        const auto address = ended.dialled.extract(event.link);
        ended.failures += "\n  " + address.mapped() + ": " + event.reason;
        if (!ended.dialled.empty())
          return;
        ended.found->set_value(
            error{error_kind::unknown,
                  "the rendezvous cannot be reached at any of its addresses:" + ended.failures});
        self->quit();
      },
  };
}

} // namespace

expected<std::string> find_reachable_address(const std::vector<std::string>& ips, std::uint16_t port,
                                             const link_settings& links) {
  if (ips.size() == 1)
    return ips.front();
  auto found = std::make_shared<answer>();
  auto result = found->get_future();
  loop_system system;
  // Every dial ends by the connect timeout.
  system.get().spawn(search, ips, port, links, std::move(found));
  return result.get();
}

} // namespace farandole
