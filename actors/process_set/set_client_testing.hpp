// A set client on virtual time, for tests; the actors around it only record messages.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/set_client.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

/// The setup of rank 1 in a set of two members.
inline set_client_setup second_of_two() {
  set_client_setup setup;
  setup.self = {1, 0, 1};
  setup.rank = 1;
  setup.members = 2;
  return setup;
}

/// A member of a set of two. Its lane settles every task at once.
class set_client_bench {
public:
  /// `setup` has the particular parts of a test; the other actors and the submission queue are made here.
  explicit set_client_bench(set_client_setup setup) : world_(1) {
    auto& system = world_.system();
    router_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const envelope& message) {
        auto said = decode_requests(message);
        REQUIRE(said);
        sent.push_back(*said);
      }};
    });
    lane_ = system.spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](const lane_task_ptr& task) { (*task)->settle({}); }};
    });
    member_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const operations_held_up& late) { held_up_by.push_back(late.by.rank); },
              [this](const generation_broken& problem) { broken.push_back(problem.reason); }};
    });
    queue_ = std::make_shared<farandole::submission_queue>(static_cast<std::int32_t>(setup.self.set), 2,
                                                           65536, [this] {
                                                             if (locked)
                                                               locked();
                                                             caf::anon_send(client_, doorbell_atom::value);
                                                           });
    setup.queue = queue_;
    setup.router = caf::actor_cast<envelope_actor>(router_);
    setup.connector = caf::actor_cast<path_connector_actor>(lane_);
    setup.member = caf::actor_cast<set_client_watcher_actor>(member_);
    from_leader_ = {setup.self.generation, setup.self.set, 0};
    client_ = system.spawn(set_client, std::move(setup));
  }
  ~set_client_bench() {
    queue_->close();
    for (const auto& actor : {router_, lane_, member_, caf::actor_cast<caf::actor>(client_)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    router_ = lane_ = member_ = nullptr;
    client_ = nullptr;
    world_.run_until_idle();
  }

  /// One element, float32.
  static signature scalar(operation kind = operation::allreduce) {
    signature result;
    result.operation = kind;
    result.shape = {1};
    return result;
  }
  /// `value`, if it is given, is reduced in place.
  operation_state_ptr submit(const std::string& name, const signature& asked, float* value = nullptr) {
    auto* bytes = reinterpret_cast<std::byte*>(value);
    auto operation = queue_->submit({name, asked, bytes, bytes, 0, {}});
    REQUIRE(operation);
    world_.run_until_quiet();
    return *operation;
  }
  /// Adds a bundle of these ids, each of them a scalar.
  static void moving(schedule& plan, const std::vector<std::uint32_t>& ids) {
    auto& entry = plan.bundles.emplace_back();
    for (auto id : ids) {
      entry.entries.emplace_back().id = id;
      entry.entries.back().elements = 1;
    }
  }
  /// Delivers a schedule of the leader.
  void hear(const schedule& plan) { tell(encode(from_leader_, plan)); }
  template <class Message>
  void tell(const Message& message) {
    caf::anon_send(client_, message);
    world_.run_until_quiet();
  }
  simulation& world() { return world_; }
  farandole::submission_queue& queue() { return *queue_; }

  std::vector<requests> sent;
  std::vector<std::int32_t> held_up_by; ///< ranks that were reported to the member
  std::vector<std::string> broken;      ///< why the generation was given up
  std::function<void()> locked;         ///< called while a submission holds the lock of the queue

private:
  simulation world_;
  caf::actor router_;
  caf::actor lane_;
  caf::actor member_;
  std::shared_ptr<farandole::submission_queue> queue_;
  set_client_actor client_;
  address from_leader_;
};

} // namespace farandole::testing
