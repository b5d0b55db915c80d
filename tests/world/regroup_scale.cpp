#include "tests/world/regroup_scale.hpp"

#include <cassert>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

constexpr std::size_t record_bytes = 16384;

/// No links are dialled: the test announces them.
class no_links final : public link_maker {
public:
  expected<listening> listen(const std::string&, std::uint16_t, caf::actor) override {
    return listening{1, {}};
  }
  void dial(const std::string&, std::uint16_t, caf::actor, link_id) override {}
};

hello hello_of(std::int32_t slot) {
  hello value;
  value.slot = slot;
  value.size = 1;
  const auto host = std::to_string(slot / 8);
  value.host = "4f1c2a0e-9d3b-4b60-8f7e-1d2c3b4a5968/4026531839/4026531840/" + host;
  value.host_name = "node-" + host + ".cluster.example.org";
  value.address = "10.1." + std::to_string(slot / 250) + "." + std::to_string(slot % 250) + ":41234";
  value.process = 1000 + slot;
  return value;
}

class regrouping {
public:
  explicit regrouping(std::int32_t members) : members_(members), world_(1) {
    rendezvous_options options;
    options.members = {members, true, 1, members};
    options.links.simulated = std::make_shared<no_links>();
    const auto service = start_rendezvous(world_.system(), options);
    assert(service);
    rendezvous_ = service->actor;
    sink_ = world_.system().spawn([this](caf::event_based_actor*) {
      return caf::behavior{[this](const envelope& message) {
                             if (message.kind() == wire::Envelope::Body::WELCOME) {
                               ++cost_.welcomes;
                               cost_.welcome_records += (message.bytes().size() - 1) / record_bytes + 1;
                               cost_.welcome_bytes += message.bytes().size();
                             }
                           },
                           [](close_atom) {}, [](cut_atom) {}};
    });
    for (std::int32_t slot = 0; slot < members; ++slot)
      caf::anon_send(rendezvous_, slot_started{slot});
    world_.run_until_quiet();
  }

  ~regrouping() {
    caf::anon_send_exit(rendezvous_, caf::exit_reason::kill);
    caf::anon_send_exit(sink_, caf::exit_reason::kill);
    rendezvous_ = nullptr;
    sink_ = nullptr;
    world_.run_until_quiet();
  }

  regroup_cost run() {
    join_members(members_);
    caf::anon_send(rendezvous_, slot_exited{members_ - 1, "was killed by signal 9"});
    world_.run_until_quiet();
    world_.watch(caf::actor_cast<caf::actor>(rendezvous_));
    cost_ = {};
    join_members(members_ - 1);
    cost_.busy += world_.watched_time();
    return cost_;
  }

private:
  void join_members(std::int32_t members) {
    for (std::int32_t slot = 0; slot < members; ++slot) {
      const auto link = ++links_;
      auto message = encode(address{}, hello_of(slot));
      ++cost_.hellos;
      cost_.hello_bytes += message.bytes().size();
      caf::anon_send(rendezvous_, link_opened{link, sink_, "a member", true});
      world_.run_until_quiet();
      const auto begin = thread_time();
      auto parsed = envelope::parse(message.bytes());
      cost_.busy += thread_time() - begin;
      caf::anon_send(rendezvous_, link_received{link, std::move(*parsed)});
    }
    world_.run_until_quiet();
  }

  std::int32_t members_;
  simulation world_;
  rendezvous_actor rendezvous_;
  caf::actor sink_;
  link_id links_ = 0;
  regroup_cost cost_;
};

} // namespace

regroup_cost run_regroup(std::int32_t survivors) {
  return regrouping(survivors + 1).run();
}

} // namespace farandole::testing
