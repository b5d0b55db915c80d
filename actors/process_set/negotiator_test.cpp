#include "actors/process_set/negotiator.hpp"

#include <catch2/catch.hpp>

#include <cstring>

#include "actors/interfaces/stalls.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::simulation;

namespace {

/// A negotiator of two members in generation 3, its results, and the members that it reports as faulty.
class bench {
public:
  bench() : world_(1) {
    auto& system = world_.system();
    recorder_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const negotiation_result_message& message) { results.push_back(*message.decided); },
              [this](const member_fault& fault) { faults.push_back(fault); }};
    });
    negotiation_options options;
    options.members = {0, 1};
    options.inline_bytes = 64;
    negotiator_ = system.spawn(negotiator, leader_setup{3, 0, 0}, options,
                               caf::actor_cast<fusion_scheduler_actor>(recorder_),
                               caf::actor_cast<member_watcher_actor>(recorder_));
  }
  ~bench() {
    caf::anon_send_exit(negotiator_, caf::exit_reason::kill);
    caf::anon_send_exit(recorder_, caf::exit_reason::kill);
    negotiator_ = nullptr;
    recorder_ = nullptr;
    world_.run_until_idle();
  }

  void hear(const envelope& message) {
    caf::anon_send(negotiator_, message);
    world_.run_until_quiet();
  }
  std::vector<stalled_tensor> stalled(std::chrono::nanoseconds limit) {
    caf::scoped_actor asking(world_.system());
    asking->send(negotiator_, stalled_atom::value, limit);
    world_.run_until_quiet();
    std::vector<stalled_tensor> result;
    REQUIRE(asking->has_next_message());
    asking->receive([&](const stall_list& list) { result = list.stalls; });
    return result;
  }
  simulation& world() { return world_; }

  std::vector<negotiation_result> results;
  std::vector<member_fault> faults;

private:
  simulation world_;
  caf::actor recorder_;
  negotiator_actor negotiator_;
};

requests ask(std::string name) {
  requests batch;
  batch.full.push_back({std::move(name), {}, 0, 0});
  return batch;
}

/// A request by id for a scalar, with its value.
requests again(std::uint32_t id, float value) {
  requests batch;
  batch.ids = {id};
  auto& sent = batch.values.emplace_back();
  sent.id = id;
  sent.bytes.resize(sizeof value);
  std::memcpy(sent.bytes.data(), &value, sizeof value);
  return batch;
}

} // namespace

TEST_CASE("the negotiator sends a result once all members have requested a tensor, and none before") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  CHECK(table.results.empty());
  table.hear(encode({3, 0, 1}, ask("a")));
  REQUIRE(table.results.size() == 1);
  CHECK(table.results[0].ready.size() == 1);
  CHECK(table.faults.empty());
}

TEST_CASE("the negotiator ignores messages of another generation or set") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({2, 0, 1}, ask("a")));
  table.hear(encode({4, 0, 1}, ask("a")));
  table.hear(encode({3, 1, 1}, ask("a")));
  CHECK(table.results.empty());
  CHECK(table.faults.empty());
}

TEST_CASE("the negotiator reports the sender of an invalid message to its parent and serves the others") {
  bench table;
  table.hear(encode({3, 0, 1}, schedule{}));
  REQUIRE(table.faults.size() == 1);
  CHECK(table.faults[0].rank == 1);
  table.hear(encode({3, 0, 7}, ask("a")));
  REQUIRE(table.faults.size() == 2);
  CHECK(table.faults[1].rank == 7);
  CHECK(table.faults[1].reason.find("not in this process set") != std::string::npos);
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({3, 0, 1}, ask("a")));
  CHECK(table.results.size() == 1);
}

TEST_CASE("a small tensor that both members send with its id is returned reduced, without a bundle") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({3, 0, 1}, ask("a")));
  REQUIRE(table.results.size() == 1);
  const auto id = table.results[0].ready.at(0).id;
  REQUIRE(id != 0);
  for (int step = 0; step < 2; ++step) {
    table.hear(encode({3, 0, 0}, again(id, 1.5F)));
    table.hear(encode({3, 0, 1}, again(id, 2)));
    REQUIRE(table.results.size() == 2U + step);
    CHECK(table.results.back().ready.empty());
    CHECK(table.results.back().results == again(id, 3.5F).values);
  }
  CHECK(table.faults.empty());
}

TEST_CASE("a member that breaks the rules of inline tensors is reported to the parent") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.hear(encode({3, 0, 1}, ask("a")));
  const auto id = table.results.at(0).ready.at(0).id;
  auto message = again(id, 1);
  std::string part;
  SECTION("a value without its request") {
    message.ids.clear();
    part = "does not ask for it";
  }
  SECTION("a value above the limit") {
    message.values[0].bytes.resize(65);
    part = "65 bytes, and at most 64";
  }
  SECTION("another length than the tensor's") {
    message.values[0].bytes.resize(8);
    part = "8 bytes for the tensor of id " + std::to_string(id) + ", which has 4";
  }
  table.hear(encode({3, 0, 0}, again(id, 1)));
  table.hear(encode({3, 0, 1}, message));
  REQUIRE(table.faults.size() == 1);
  CHECK(table.faults[0].rank == 1);
  CHECK_THAT(table.faults[0].reason, Catch::Contains(part));
}

TEST_CASE("the negotiator reports the ranks that have not requested a tensor within the limit") {
  bench table;
  table.hear(encode({3, 0, 0}, ask("a")));
  table.world().run_for(61s);
  CHECK(table.stalled(60s) == std::vector<stalled_tensor>{{"a", 61s, {1}}});
  CHECK(table.stalled(62s).empty());
}
