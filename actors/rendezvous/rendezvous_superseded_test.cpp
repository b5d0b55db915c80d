// A rendezvous that learns, from a peer with the job's secret, that the job's members follow a later rendezvous.
#include "actors/rendezvous/rendezvous.hpp"

#include <functional>

#include "actors/event_loop/link_testing.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

struct bearer {
  const char* name;
  std::function<envelope(std::uint64_t epoch)> message;
};

const std::vector<bearer> bearers{
    {"a superseded message", [](std::uint64_t epoch) { return encode(address{}, superseded{epoch}); }},
    {"a hello",
     [](std::uint64_t epoch) {
       hello said;
       said.epoch = epoch;
       return encode(address{}, said);
     }},
    {"a member that returns",
     [](std::uint64_t epoch) {
       returning said;
       said.generation = 1;
       said.epoch = epoch;
       return encode(address{}, said);
     }},
    {"a launcher's report",
     [](std::uint64_t epoch) {
       slot_report said;
       said.epoch = epoch;
       return encode(address{}, said);
     }},
};

/// Ends the rendezvous with the test, also if the test fails.
struct ending {
  rendezvous_actor actor;
  ~ending() { caf::anon_send(actor, close_atom::value); }
};

constexpr std::uint64_t later = std::uint64_t{9} << 32;

} // namespace

TEST_CASE("a rendezvous that learns of a later epoch ends, and its log names the sender", "[rendezvous]") {
  for (const bearer& bearer : bearers)
    for (const bool is_later : {true, false})
      DYNAMIC_SECTION(bearer.name << (is_later ? ", of a later epoch" : ", of an earlier one")) {
        party right;
        right.settings.close_timeout = std::chrono::milliseconds(50);
        rendezvous_options options;
        options.links = right.settings;
        options.log = &right.log;
        const auto started = start_rendezvous(right.system.get(), options);
        REQUIRE(started);
        const ending ends{started->actor};
        right.self->monitor(started->actor);
        const auto say = [&](std::uint64_t epoch) {
          tls_session tls{right.settings.credentials, tls_side::client};
          stranger peer = call_as_member(started->port, tls);
          say_sealed(peer, tls, bearer.message(epoch));
          return peer;
        };
        const auto first = say(is_later ? later : 1);
        if (is_later) {
          CHECK(right.log_lines.wait_for("of epoch 9.", "as " + first.name() + " says"));
        } else {
          const auto second = say(later); // the rendezvous still runs and receives this
          CHECK(right.log_lines.wait_for("of epoch 9.", "as " + second.name() + " says"));
        }
        right.next<caf::down_msg>();
        CHECK(right.log_lines.errors() == 1);
      }
}
