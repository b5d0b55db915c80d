// Shared by tests that expose a process set's actors to hostile members. Each hostile message either has no effect,
// or the actor reports it to the member's root with the rank of the sender; the root then ends the generation and
// names that rank. The actor itself goes on and serves the other members.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/negotiation.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

inline constexpr std::uint64_t generation = 3;
inline constexpr std::uint32_t set = 1;

inline address from(std::int32_t rank) {
  return {generation, set, rank};
}

/// One actor under test, on the leader or a relay, and a recorder of its messages.
class bench {
public:
  using maker = std::function<envelope_actor(caf::actor_system& system, const caf::actor& recorder)>;

  explicit bench(const maker& make) : world_(1) {
    recorder_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const negotiation_result_message& message) { results.push_back(*message.decided); },
              [this](const envelope& message) { sent.push_back(message); },
              [this](const bundle_finished& message) { finished.push_back(message.sequence); },
              [this](const member_fault& fault) { faults.push_back(fault); }};
    });
    tested_ = make(world_.system(), recorder_);
  }
  ~bench() {
    caf::anon_send_exit(tested_, caf::exit_reason::kill);
    caf::anon_send_exit(recorder_, caf::exit_reason::kill);
    tested_ = nullptr;
    recorder_ = nullptr;
    world_.run_until_idle();
  }

  void hear(const envelope& message) {
    caf::anon_send(tested_, message);
    REQUIRE(world_.run_until_quiet());
  }
  void leave() {
    caf::anon_send(caf::actor_cast<caf::actor>(tested_), leave_atom::value);
    REQUIRE(world_.run_until_quiet());
  }
  void wait(std::chrono::nanoseconds duration) { REQUIRE(world_.run_for(duration)); }

  std::vector<negotiation_result> results;
  std::vector<envelope> sent;
  std::vector<std::uint64_t> finished;
  std::vector<member_fault> faults;

private:
  simulation world_;
  caf::actor recorder_;
  envelope_actor tested_;
};

struct hostile {
  const char* name;
  std::int32_t culprit; ///< the rank that sent the message
  std::function<envelope()> message;
  const char* reason; ///< text of the expected report; empty: the message has no effect
};

inline requests with(const std::function<void(requests&)>& fill) {
  requests result;
  fill(result);
  return result;
}

inline gathered gathering(const std::function<void(gathered&)>& fill) {
  gathered result;
  fill(result);
  return result;
}

inline requests ask(const std::string& name, std::vector<std::int64_t> shape = {}) {
  return with([&](requests& r) {
    r.full.push_back({name, {}, 0, 0});
    r.full.back().signature.shape = std::move(shape);
  });
}

/// Messages from this rank that every one of these actors must withstand.
inline std::vector<hostile> foreign_messages(std::int32_t rank) {
  return {
      {"a greeting", rank,
       [=] {
         return encode(from(rank), greeting{wire_version, rank});
       },
       "holds something else"},
      {"a hello", rank, [=] { return encode(from(rank), hello{}); }, "holds something else"},
      {"the loss of a member", rank,
       [=] {
         return encode(from(rank), lost{generation, 0, "so I say"});
       },
       "holds something else"},
      {"a refusal", rank, [=] { return encode(from(rank), refused{"go away"}); }, "holds something else"},
      {"path addresses of all", rank, [=] { return encode(from(rank), member_path_addresses{}); },
       "holds something else"},
      {"a message of the generation before", rank,
       [=] {
         return encode(address{generation - 1, set, rank}, hello{});
       },
       ""},
      {"a message of the generation to come", rank,
       [=] {
         return encode(address{generation + 1, set, rank}, hello{});
       },
       ""},
      {"a message of the last generation that can be", rank,
       [=] {
         return encode(address{UINT64_MAX, set, rank}, hello{});
       },
       ""},
      {"a message of another set", rank,
       [=] {
         return encode(address{generation, set + 1, rank}, hello{});
       },
       ""},
  };
}

inline std::vector<hostile> operator+(std::vector<hostile> first, std::vector<hostile> more) {
  std::move(more.begin(), more.end(), std::back_inserter(first));
  return first;
}

/// Sends each of the messages to an actor in the middle of its work, and checks that the actor then serves the other
/// members.
inline void withstands(const bench::maker& make, const std::vector<hostile>& messages,
                       const std::function<void(bench&)>& begin, const std::function<void(bench&)>& serves) {
  for (const hostile& message : messages) {
    DYNAMIC_SECTION(message.name) {
      bench table{make};
      begin(table);
      table.hear(message.message());
      if (*message.reason == '\0') {
        CHECK(table.faults.empty());
      } else {
        REQUIRE(table.faults.size() == 1);
        CHECK(table.faults[0].rank == message.culprit);
        CHECK(table.faults[0].set == set);
        CHECK_THAT(table.faults[0].reason, Catch::Contains(message.reason));
      }
      CHECK(table.finished.empty());
      serves(table);
    }
  }
}

} // namespace farandole::testing
