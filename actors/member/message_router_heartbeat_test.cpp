// The message router of rank 0; the test plays the links to ranks 1 and 2.
#include "actors/member/message_router.hpp"

#include <catch2/catch.hpp>

#include <map>

#include "actors/event_loop/link_messages.hpp"
#include "messages/wire/heartbeat.hpp"
#include "messages/wire/membership.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using farandole::testing::simulation;

namespace {

class bench {
public:
  bench() : world_(1) {
    router_ = world_.system().spawn(message_router, message_router_setup{});
    beats_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const envelope& message) { heartbeats_from.push_back(message.source()); }};
    });
    for (std::int32_t rank : {1, 2}) {
      links_[rank] = world_.system().spawn([this, rank](caf::event_based_actor*) -> caf::behavior {
        return {[this, rank](const envelope&) { ++sent[rank]; }, [this, rank](close_atom) { ++closed[rank]; },
                [this, rank](cut_atom) { ++cut[rank]; }};
      });
      caf::anon_send(router_, link_opened{number(rank), links_[rank], "10.0.0.1:1", true});
      hear(rank, encode(address{1, 0, rank}, greeting{wire_version, rank}));
    }
    generation_entered entered;
    entered.generation = 1;
    entered.members.resize(3);
    entered.tree = std::make_shared<relay_tree>(3);
    entered.heartbeats = caf::actor_cast<envelope_actor>(beats_);
    caf::anon_send(router_, entered);
    world_.run_until_quiet();
  }
  ~bench() {
    for (const auto& actor : {caf::actor_cast<caf::actor>(router_), beats_, links_[1], links_[2]})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    router_ = nullptr;
    beats_ = nullptr;
    links_.clear();
    world_.run_until_idle();
  }

  void hear(std::int32_t neighbour, const envelope& message) {
    caf::anon_send(router_, link_received{number(neighbour), message});
    world_.run_until_quiet();
  }
  template <class Message>
  void say(const Message& value) {
    caf::anon_send(router_, value);
    world_.run_until_quiet();
  }

  std::vector<std::int32_t> heartbeats_from;
  std::map<std::int32_t, int> sent, closed, cut;

private:
  static link_id number(std::int32_t rank) { return 100 + static_cast<link_id>(rank); }

  simulation world_;
  message_router_actor router_;
  caf::actor beats_;
  std::map<std::int32_t, caf::actor> links_;
};

using counts = std::map<std::int32_t, int>;

} // namespace

TEST_CASE("a heartbeat counts only in its generation and only for the member at the other end of the link") {
  bench table;
  table.hear(1, encode(address{1, 0, 1}, heartbeat{}));
  table.hear(2, encode(address{1, 0, 2}, heartbeat{}));
  table.hear(2, encode(address{2, 0, 2}, heartbeat{}));
  CHECK(table.heartbeats_from == std::vector{1, 2});
  CHECK(table.closed.empty());
  table.hear(2, encode(address{1, 0, 1}, heartbeat{}));
  CHECK(table.heartbeats_from == std::vector{1, 2});
  CHECK(table.closed == counts{{2, 1}});
}

TEST_CASE("a message for a neighbour goes to its link alone, and to no link if there is none") {
  bench table;
  const auto message = encode(address{1, 0, 0}, heartbeat{});
  table.say(neighbour_message{2, message});
  table.say(neighbour_message{7, message});
  table.say(neighbour_message{-1, message});
  CHECK(table.sent == counts{{2, 1}});
}

TEST_CASE("links to members that are given up are cut; closing the router closes the other links in order") {
  bench table;
  table.say(neighbours_given_up{{-1, 2, 7}});
  CHECK(table.cut == counts{{2, 1}});
  CHECK(table.closed.empty());
  table.say(close_atom::value);
  CHECK(table.closed.at(1) == 1);
}
