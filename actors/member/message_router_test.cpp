// The message router of a member whose neighbours have the secret and break the protocol. The links are dummies that
// record only that they were closed; one recorder stands for all actors of the process.
#include "actors/member/message_router.hpp"

#include <catch2/catch.hpp>

#include <functional>

#include "actors/event_loop/link_messages.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/rendezvous_recovery.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using farandole::testing::simulation;

namespace {

constexpr std::uint64_t generation = 4;

/// A network in which no dialled address answers.
class no_network : public link_maker {
  expected<listening> listen(const std::string&, std::uint16_t, caf::actor) override {
    return error{error_kind::unimplemented, "nobody listens here"};
  }
  void dial(const std::string&, std::uint16_t, caf::actor, link_id) override {}
};

struct gone {
  std::int32_t rank;
  std::string reason;
};

/// The message router of one rank, in a job in which ranks 2 and 3 share the second host and rank 2 is its relay.
class bench {
public:
  explicit bench(std::int32_t rank) : world_(1), rank_(rank) {
    recorder_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const envelope& message) { taken.push_back(message); },
              [this](const peer_gone& peer) {
                gone_peers.push_back({peer.rank, peer.reason});
              }};
    });
    message_router_setup setup;
    setup.member = caf::actor_cast<member_actor>(recorder_);
    setup.links.simulated = std::make_shared<no_network>();
    setup.rendezvous_ip = "127.0.0.1";
    setup.log = &log_;
    router_ = world_.system().spawn(message_router, std::move(setup));
  }
  ~bench() {
    caf::anon_send_exit(router_, caf::exit_reason::kill);
    for (auto& [id, link] : links_)
      caf::anon_send_exit(link, caf::exit_reason::kill);
    caf::anon_send_exit(recorder_, caf::exit_reason::kill);
    links_.clear();
    router_ = nullptr;
    recorder_ = nullptr;
    world_.run_until_idle();
  }

  void enter() {
    const std::vector<std::string_view> hosts{"a", "a", "b", "b"};
    generation_entered entered;
    entered.generation = generation;
    entered.rank = rank_;
    entered.members.resize(hosts.size());
    for (auto& member : entered.members)
      member.address = "127.0.0.1:5000";
    entered.tree = std::make_shared<relay_tree>(hosts, relay_options{2, 8});
    const auto all = caf::actor_cast<envelope_actor>(recorder_);
    entered.global = {0, {}, all, all, all, all, all};
    tell(entered);
  }
  /// Opens the link of a neighbour that greets as rank `greets_as`, or sends no greeting if that is negative.
  void link(link_id id, std::int32_t greets_as) {
    links_[id] = world_.system().spawn([this, id](caf::event_based_actor*) -> caf::behavior {
      return {[this, id](close_atom) { closed.push_back(id); }, [](const envelope&) {}};
    });
    tell(link_opened{id, links_[id], "10.0.0.9:" + std::to_string(id)});
    if (greets_as >= 0)
      bring(id, encode(address{generation, 0, greets_as}, greeting{wire_version, greets_as}));
  }
  void bring(link_id id, const envelope& message) { tell(link_received{id, message}); }
  void end(link_id id) { tell(link_closed{id, "closed by the peer"}); }

  std::vector<envelope> taken;
  std::vector<gone> gone_peers;
  std::vector<link_id> closed;
  std::vector<std::string> logged;

private:
  template <class Message>
  void tell(const Message& message) {
    caf::anon_send(router_, message);
    REQUIRE(world_.run_until_quiet());
  }

  logger log_{{.level = log_level::warning},
              [this](log_level, std::string_view line) { logged.emplace_back(line); }};
  simulation world_;
  const std::int32_t rank_;
  caf::actor recorder_;
  message_router_actor router_;
  std::map<link_id, caf::actor> links_;
};

constexpr link_id from_above = 2; ///< the number that the message router gives to the link that it dials

requests ask(const std::string& name = "a") {
  requests asked;
  asked.full.push_back({name, {}, 0, 0});
  return asked;
}

address from(std::int32_t rank, std::uint32_t set = 0, std::uint64_t of = generation) {
  return {of, set, rank};
}

/// A message that no correct member sends, its receiver, and the neighbour whose link brings it.
struct hostile {
  const char* name;
  std::int32_t receiver; ///< its rank
  std::int32_t sender;   ///< the neighbour whose link brings it
  std::function<envelope()> message;
  const char* reason;
};

const std::vector<hostile> all_hostile{
    {"requests of a rank that is not below", 0, 1, [] { return encode(from(2), ask()); },
     "a message of rank 2 came by the link of rank 1"},
    {"requests of the leader, from below", 0, 1, [] { return encode(from(0), ask()); },
     "came by the link of rank 1"},
    {"requests of rank -1", 0, 2, [] { return encode(from(-1), ask()); }, "a message of rank -1 came"},
    {"requests of a rank beyond the job", 0, 2, [] { return encode(from(4), ask()); },
     "a message of rank 4 came"},
    {"requests of the greatest rank", 0, 2, [] { return encode(from(INT32_MAX), ask()); },
     "a message of rank 2147483647 came"},
    {"a schedule from below", 0, 1, [] { return encode(from(1), schedule{}); },
     "has no place between members"},
    {"a schedule in the leader's name", 0, 1, [] { return encode(from(0), schedule{}); },
     "came by the link of rank 1"},
    {"path addresses from below", 0, 1, [] { return encode(from(1), member_path_addresses{}); },
     "has no place between members"},
    {"a second greeting", 0, 1,
     [] {
       return encode(from(1), greeting{wire_version, 3});
     },
     "has no place between members"},
    {"a report that a member is lost", 0, 1,
     [] {
       return encode(from(1), lost{generation, 3, "so I say"});
     },
     "has no place between members"},
    {"a farewell", 0, 1, [] { return encode(from(1), farewell{}); }, "has no place between members"},
    {"a hello", 0, 1, [] { return encode(from(1), hello{}); }, "has no place between members"},
    {"a refusal", 0, 1, [] { return encode(from(1), refused{"go away"}); }, "has no place between members"},
    {"a report that another rendezvous is in charge", 0, 1, [] { return encode(from(1), superseded{}); },
     "has no place between members"},
    {"a schedule of another rank than the leader, from above", 2, 0,
     [] { return encode(from(1), schedule{}); }, "a message of rank 1 came by the link of rank 0"},
    {"requests from above", 2, 0, [] { return encode(from(0), ask()); }, "has no place between members"},
    {"a report that a member is lost, from above", 2, 0,
     [] {
       return encode(from(0), lost{generation, 3, "so I say"});
     },
     "has no place between members"},
    {"requests of another host, to a relay", 2, 3, [] { return encode(from(1), ask()); },
     "came by the link of rank 3"},
    {"requests of the relay itself, from below", 2, 3, [] { return encode(from(2), ask()); },
     "came by the link of rank 3"},
};

} // namespace

TEST_CASE("message router: a message that no member sends closes its link and names its sender",
          "[message_router]") {
  for (const hostile& hostile : all_hostile) {
    DYNAMIC_SECTION(hostile.name) {
      bench process{hostile.receiver};
      process.enter();
      const bool above = hostile.sender == 0;
      const link_id link = above ? from_above : 77;
      process.link(link, above ? -1 : hostile.sender);
      process.bring(link, hostile.message());
      CHECK(process.closed == std::vector<link_id>{link});
      REQUIRE(process.gone_peers.size() == 1);
      CHECK(process.gone_peers[0].rank == hostile.sender);
      CHECK_THAT(process.gone_peers[0].reason, Catch::Contains(hostile.reason));
      // The router discards later messages of that link too, and reports its member only once.
      process.bring(link, above ? encode(from(0), schedule{}) : encode(from(hostile.sender), ask()));
      process.bring(link, hostile.message());
      process.end(link);
      CHECK(process.taken.empty());
      CHECK(process.gone_peers.size() == 1);
      CHECK(process.closed.size() == 1);
    }
  }
}

TEST_CASE("message router: before the generation begins here, it takes no message in another rank's name",
          "[message_router]") {
  for (const hostile& hostile : all_hostile) {
    if (hostile.sender == 0)
      continue; // a member has no parent before it has entered a generation
    DYNAMIC_SECTION(hostile.name) {
      bench process{hostile.receiver};
      process.link(77, hostile.sender);
      process.bring(77, hostile.message());
      process.enter();
      CHECK(process.closed == std::vector<link_id>{77});
      REQUIRE(process.gone_peers.size() == 1);
      CHECK(process.gone_peers[0].rank == hostile.sender);
      CHECK(process.taken.empty());
    }
  }
}

TEST_CASE("message router: it delivers permitted messages that arrive before or after the generation begins",
          "[message_router]") {
  for (const bool early : {true, false}) {
    bench process{0};
    if (!early)
      process.enter();
    process.link(77, 2);
    process.bring(77, encode(from(2), ask()));
    process.bring(77, encode(from(3), ask()));
    process.bring(77, encode(from(2), gathered{}));
    process.bring(77, encode(from(3), path_addresses{}));
    if (early)
      process.enter();
    CHECK(process.taken.size() == 4);
    CHECK(process.gone_peers.empty());
    CHECK(process.closed.empty());
  }
}

TEST_CASE("message router: it hears a member whose earlier link, of a missed generation, has closed",
          "[message_router]") {
  bench process{0};
  process.link(77, 1);
  process.bring(77, encode(from(1, 0, generation - 1), ask()));
  process.end(77);
  process.link(78, 1);
  process.bring(78, encode(from(1), ask()));
  process.enter();
  CHECK(process.taken.size() == 1);
  CHECK(process.closed.empty());
}

TEST_CASE("message router: it discards messages of other generations", "[message_router]") {
  bench process{0};
  process.enter();
  process.link(77, 1);
  process.bring(77, encode(from(1, 0, generation - 1), ask()));
  process.bring(77, encode(from(1, 0, generation + 1), ask()));
  process.bring(77, encode(from(1, 0, UINT64_MAX), ask()));
  CHECK(process.taken.empty());
  CHECK(process.closed.empty());
}

TEST_CASE("message router: a flood for a set or generation not begun closes the link and names its member",
          "[message_router]") {
  struct flood {
    const char* name;
    bool early; ///< before the generation begins here
    std::uint32_t set;
    std::uint64_t of;
  };
  for (const flood& entry : {flood{"for a set that was never proposed", false, 4'000'000'000, generation},
                             flood{"for a distant generation", false, 0, generation + 9},
                             flood{"before the generation begins", true, 0, generation},
                             flood{"for a set, before the generation begins", true, 9, generation}}) {
    DYNAMIC_SECTION(entry.name) {
      bench process{0};
      if (!entry.early)
        process.enter();
      process.link(77, 1);
      const auto message = encode(from(1, entry.set, entry.of), ask());
      for (int count = 0; count < 5000; ++count)
        process.bring(77, message);
      CHECK(process.closed == std::vector<link_id>{77});
      REQUIRE(process.gone_peers.size() == 1);
      CHECK(process.gone_peers[0].rank == 1);
      if (entry.early)
        process.enter();
      CHECK(process.taken.empty());
    }
  }
}

TEST_CASE("message router: an impossible greeting closes its link, and no member is reported gone",
          "[message_router]") {
  for (const bool early : {true, false})
    for (const std::int32_t claimed : {-1, 0, 3, 4, INT32_MAX, INT32_MIN}) {
      DYNAMIC_SECTION("rank " << claimed << (early ? ", before the generation begins" : "")) {
        bench process{0};
        if (!early)
          process.enter();
        process.link(77, -1);
        process.bring(77, encode(from(claimed), greeting{wire_version, claimed}));
        if (early)
          process.enter();
        CHECK(process.closed == std::vector<link_id>{77});
        // The link may not greet again as another rank.
        process.bring(77, encode(from(1), greeting{wire_version, 1}));
        process.bring(77, encode(from(1), ask()));
        CHECK(process.taken.empty());
        process.end(77);
        CHECK(process.gone_peers.empty());
        // The real member can still connect.
        process.link(78, 1);
        process.bring(78, encode(from(1), ask()));
        CHECK(process.taken.size() == 1);
      }
    }
}

TEST_CASE("message router: a second link of a rank, another wire version or a missing greeting is refused",
          "[message_router]") {
  bench process{0};
  process.enter();
  process.link(77, 1);
  process.link(78, 1);
  CHECK(process.closed == std::vector<link_id>{78});
  // The router cannot know which of the two links is false: the log names both.
  REQUIRE(process.logged.size() == 1);
  CHECK_THAT(process.logged[0], Catch::Contains("closing the link from 10.0.0.9:78") &&
                                    Catch::Contains("rank 1 is connected already, from 10.0.0.9:77"));
  process.end(78);
  process.link(79, -1);
  process.bring(79, encode(from(2), greeting{wire_version + 1, 2}));
  process.link(80, -1);
  process.bring(80, encode(from(2), ask()));
  CHECK(process.closed == std::vector<link_id>{78, 79, 80});
  CHECK(process.gone_peers.empty());
  process.bring(77, encode(from(1), ask()));
  CHECK(process.taken.size() == 1);
}
