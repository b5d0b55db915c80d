// A message that fails, or has another length than its receiver expects, fails the operation that it belongs
// to, on the member that it hit.
#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "collectives/paths/bundle_testing.hpp"
#include "collectives/paths/exchange/message_exchange.hpp"
#include "collectives/paths/exchange/steps_testing.hpp"
#include "collectives/paths/forked_testing.hpp"
#include "collectives/paths/gloo/gloo_address.hpp"
#include "collectives/paths/gloo/gloo_worker.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

class message_of_steps final : public gloo_message {
public:
  explicit message_of_steps(steps& counted) : steps_(counted) {}
  std::string wait(std::chrono::milliseconds) override { return steps_.take().text; }
  void give_up() override {}
  bool broken() override { return false; }

private:
  steps& steps_;
};

/// The mesh of rank 0 of two: each message is done at once, in two steps, of which one may fail.
class mesh_of_steps final : public gloo_mesh {
public:
  explicit mesh_of_steps(steps& counted) : steps_(counted) {}
  std::string address(int) const override { return "here"; }
  std::string connect(int, const std::string&) override { return {}; }
  gloo_message* send(int, std::uint64_t, const std::byte*, std::size_t, std::string& why) override {
    return begin(why);
  }
  gloo_message* receive(int peer, std::uint64_t slot, std::byte* memory, std::size_t bytes,
                        std::string& why) override {
    const auto phase = static_cast<message_phase>(slot & 0xff);
    if (bytes > 0)
      std::memset(memory, 0, bytes);
    if (phase == message_phase::goodbye) {
      const auto in_order = goodbye{}.encode();
      std::memcpy(memory, in_order.data(), in_order.size());
    } else if (phase == message_phase::hello) {
      const std::uint64_t place[] = {static_cast<std::uint64_t>(peer), 2}; // of the members
      std::memcpy(memory + 2 * sizeof place[0], place, sizeof place);
    }
    return begin(why);
  }
  void close() override {}

private:
  gloo_message* begin(std::string& why) {
    why = steps_.take().text;
    return why.empty() ? new message_of_steps(steps_) : nullptr;
  }
  steps& steps_;
};

struct ending {
  error connecting, running;
  std::size_t connected = 0, ended = 0; ///< steps taken by then
};

ending played(operation what, std::size_t count, std::size_t failing) {
  steps counted{failing};
  gloo_options options;
  options.global_ranks = {0, 1};
  gloo_worker worker(options, std::make_unique<mesh_of_steps>(counted));
  abort_token abort;
  const limits until{abort, far(), "test deadline"};
  ending told;
  const std::vector<std::string> places = {"here", ""};
  const std::vector<std::string> addresses = {"", packed_addresses(places)};
  told.connecting = worker.connect(addresses, 0, until);
  told.connected = counted.taken;
  message_staging staging{};
  const bundle_of own(what, count);
  if (!told.connecting)
    told.running = message_exchange(worker, staging, own.bundle, until, {}, nullptr).run();
  told.ended = counted.taken;
  return told;
}

constexpr operation all[] = {operation::allreduce, operation::allgather,     operation::broadcast,
                             operation::alltoall,  operation::reducescatter, operation::barrier};

} // namespace

TEST_CASE("gloo: a step of a message that fails, whichever it is, fails what it belongs to") {
  const auto what = GENERATE(from_range(std::begin(all), std::end(all)));
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{1'500'000});
  const auto well = played(what, count, SIZE_MAX);
  INFO("operation " << static_cast<int>(what) << ", " << well.connected << " and then "
                    << well.ended - well.connected << " steps");
  REQUIRE(well.connecting.text == "");
  REQUIRE(well.running.text == "");
  REQUIRE(well.ended > well.connected);
  for (std::size_t failing = 0; failing < well.ended; ++failing) {
    const auto ended = played(what, count, failing);
    CAPTURE(failing);
    CHECK(bool(ended.connecting) == (failing < well.connected));
    CHECK(bool(ended.running) == (failing >= well.connected));
  }
}

TEST_CASE(
    "gloo: a message of another length fails the operation that awaits it, with its sender and lengths") {
  const auto what = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                             operation::alltoall, operation::reducescatter);
  INFO("operation " << static_cast<int>(what));
  path_options how;
  how.wishes.forced = "gloo";
  forked_members members({"a", "a"}, how, [what](forked_member& self) -> std::string {
    const bundle_of own(what, self.rank() == 0 ? 14 : 16);
    auto until = self.until();
    until.deadline = steady_clock::now() + std::chrono::milliseconds(400);
    return self.paths->choose(own.bundle).run(own.bundle, until).error.text;
  });
  const std::string ends[] = {members.hear(0), members.hear(1)};
  CHECK(ends[0] != "");
  CHECK(ends[1] != "");
  // The first to fail may have left before it hears the other's goodbye.
  CHECK_THAT(ends[0] + ends[1], Catch::Contains("; rank 0 sent 14 bytes where 16 were expected") ||
                                    Catch::Contains("; rank 1 sent 16 bytes where 14 were expected"));
}
