// A rendezvous whose generations end one after the other, on virtual time.
#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "messages/wire/membership.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// An elastic rendezvous of two slots, without sockets: the test plays the members' links.
class elastic_job {
public:
  elastic_job() {
    rendezvous_options options;
    options.members = {.size = 2, .elastic = true, .minimum = 1, .limit = 2};
    rendezvous_ = world_.system().spawn(rendezvous, options, membership{options.members, 1});
    for (std::int32_t slot : {0, 1})
      caf::anon_send(rendezvous_, slot_started{slot, "node0"});
  }

  /// The process of the slot connects by a new link.
  void arrive(std::int32_t slot) {
    const auto link = ++last_link_;
    links_[slot] = link;
    auto handle = world_.system().spawn([this]() -> caf::behavior {
      return {[this](const envelope& message) {
                welcomed += message.kind() == wire::Envelope::Body::WELCOME ? 1 : 0;
              },
              [](close_atom) {}};
    });
    caf::anon_send(rendezvous_, link_opened{link, handle, "a test", true});
    hello said;
    said.slot = slot;
    said.size = 2;
    said.host_name = "node0";
    said.address = "127.0.0.1:" + std::to_string(5000 + slot);
    said.process = slot + 1;
    caf::anon_send(rendezvous_, link_received{link, encode(address{}, said)});
  }
  void lose_link(std::int32_t slot) {
    caf::anon_send(rendezvous_, link_closed{links_.at(slot), "closed by the peer"});
  }
  void run(std::chrono::nanoseconds duration) { REQUIRE(world_.run_for(duration)); }
  std::size_t pending_timers() const { return world_.pending_timers(); }
  void close() {
    caf::anon_send_exit(rendezvous_, caf::exit_reason::user_shutdown);
    rendezvous_ = nullptr;
    REQUIRE(world_.run_until_idle());
  }

  std::int32_t welcomed = 0;

private:
  testing::simulation world_{5};
  rendezvous_actor rendezvous_;
  std::map<std::int32_t, link_id> links_;
  link_id last_link_ = 10;
};

} // namespace

TEST_CASE("a job that regroups repeatedly keeps no timers of earlier generations", "[rendezvous]") {
  elastic_job job;
  job.arrive(0);
  job.arrive(1);
  job.run(10ms);
  REQUIRE(job.welcomed == 2);
  std::size_t most_timers = 0;
  for (int round = 1; round <= 100; ++round) {
    for (std::int32_t slot : {1, 0})
      job.lose_link(slot);
    job.run(10ms);
    for (std::int32_t slot : {0, 1})
      job.arrive(slot);
    job.run(10ms);
    REQUIRE(job.welcomed == 2 + 2 * round);
    most_timers = std::max(most_timers, job.pending_timers());
  }
  // After a lost link, a timer waits a quarter of a second for the exit of the process.
  CHECK(most_timers < 50);
  job.close();
}
