// Messages to members that wait in init() about members that have not arrived, on virtual time.
#include <catch2/catch.hpp>

#include <memory>
#include <vector>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

struct heard {
  std::int64_t second = 0;
  link_id link = 0;
  awaited missing;
};

/// A rendezvous without sockets: the test plays the members' links.
class waiting_room {
public:
  explicit waiting_room(std::int32_t size) {
    rendezvous_options options;
    options.members.size = size;
    rendezvous_ = world_.system().spawn(rendezvous, options, membership{options.members, 1});
    const char* hosts[] = {"node0", "node0", "node1"};
    for (std::int32_t slot = 0; slot < size; ++slot)
      caf::anon_send(rendezvous_, slot_started{slot, hosts[slot]});
    begin_ = world_.now();
  }

  void arrive(std::int32_t slot, std::int32_t size) {
    const auto link = static_cast<link_id>(10 + slot);
    auto handle = world_.system().spawn([this, link]() -> caf::behavior {
      return {[this, link](const envelope& message) { hear(link, message); }, [](close_atom) {}};
    });
    caf::anon_send(rendezvous_, link_opened{link, handle, "a test", true});
    hello said;
    said.slot = slot;
    said.size = size;
    said.host_name = "any";
    said.address = "127.0.0.1:" + std::to_string(5000 + slot);
    said.process = slot + 1;
    caf::anon_send(rendezvous_, link_received{link, encode(address{}, said)});
  }

  void run(std::chrono::nanoseconds duration) { REQUIRE(world_.run_for(duration)); }
  void close() {
    caf::anon_send_exit(rendezvous_, caf::exit_reason::user_shutdown);
    rendezvous_ = nullptr;
    REQUIRE(world_.run_until_idle());
  }

  std::vector<heard> all;
  std::int32_t welcomed = 0;

  std::vector<std::int64_t> report_seconds(link_id link) const {
    std::vector<std::int64_t> seconds;
    for (const auto& heard : all)
      if (heard.missing.report && heard.link == link)
        seconds.push_back(heard.second);
    return seconds;
  }

private:
  void hear(link_id link, const envelope& message) {
    if (message.kind() == wire::Envelope::Body::WELCOME)
      ++welcomed;
    if (message.kind() != wire::Envelope::Body::AWAITED)
      return;
    auto missing = decode_awaited(message);
    REQUIRE(missing);
    all.push_back({(world_.now() - begin_) / 1s, link, *missing});
  }

  testing::simulation world_{3};
  rendezvous_actor rendezvous_;
  caf::actor_clock::time_point begin_;
};

} // namespace

TEST_CASE("rank 0 reports missing ranks after 5, 15 and 35 s, and all waiting members know them",
          "[rendezvous]") {
  waiting_room job(3);
  job.arrive(1, 3);
  job.run(100ms);
  job.arrive(0, 3);
  job.run(39900ms);
  CHECK(job.report_seconds(10) == std::vector<std::int64_t>{5, 15, 35});
  CHECK(job.report_seconds(11).empty());
  REQUIRE_FALSE(job.all.empty());
  for (const auto& heard : job.all) {
    CHECK(heard.missing.missing == std::vector<awaited_member>{{2, "node1"}});
    CHECK(heard.missing.arrived == 2);
    CHECK(heard.missing.size == 3);
  }
  CHECK(job.all.front().second == 1); // early enough for a short start timeout
  const auto told = job.all.size();
  job.arrive(2, 3);
  job.run(100s);
  CHECK(job.welcomed == 3);
  CHECK(job.all.size() == told);
  job.close();
}

TEST_CASE("if rank 0 is missing, the lowest waiting rank reports the missing ranks", "[rendezvous]") {
  waiting_room job(3);
  job.arrive(2, 3);
  job.run(2s);
  job.arrive(1, 3);
  job.run(4s);
  CHECK(job.report_seconds(11) == std::vector<std::int64_t>{5});
  CHECK(job.all.back().missing.missing == std::vector<awaited_member>{{0, "node0"}});
  job.close();
}

TEST_CASE("a job whose members arrive within a second gets no message about missing ranks", "[rendezvous]") {
  waiting_room job(2);
  job.arrive(0, 2);
  job.run(900ms);
  job.arrive(1, 2);
  job.run(100s);
  CHECK(job.welcomed == 2);
  CHECK(job.all.empty());
  job.close();
}
