// A rendezvous that ends and is started again, in one process: each run of it has its own event loop.
#include <catch2/catch.hpp>

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/remote_rendezvous.hpp"
#include "actors/member/drain_call.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "bindings/cxx/elastic_testing.hpp"
#include "collectives/transport/connections/sockets.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// The launcher's connection to a rendezvous that runs apart, with a watcher of generations.
class launcher_connection {
public:
  launcher_connection(std::uint16_t port, std::uint64_t job) {
    remote_rendezvous_spec spec;
    spec.ip = "127.0.0.1";
    spec.port = port;
    spec.links.credentials = std::make_shared<const tls_credentials>(secret);
    spec.job = job;
    spec.patience = std::chrono::seconds{60};
    spec.patience_setting = "60 s";
    remote_ = start_remote_rendezvous(system_.get(), spec);
    const auto watcher = system_.get().spawn(
        [formed = formed_, leaving = leaving_, ended = ended_, remote = remote_]() -> caf::behavior {
          return {[formed](const generation_formed& event) { *formed = event.generation; },
                  [leaving](const slot_leaving& event) { *leaving = event.slot; },
                  [remote](const drain_asked& event) {
                    const leaver departing{event.request.ranks.at(0), 5, "here"};
                    caf::anon_send(remote, drain_answered{event.link, {"", {departing}, false}});
                    caf::anon_send(remote, drain_answered{event.link, {"", {departing}, true}});
                  },
                  [ended](interrupt_atom, int) { *ended = true; }};
        });
    watcher_ = watcher;
    tell(watch_generations{caf::actor_cast<generation_watcher_actor>(watcher)});
  }
  ~launcher_connection() {
    caf::anon_send(remote_, close_atom::value);
    caf::anon_send_exit(watcher_, caf::exit_reason::user_shutdown);
  }

  template <class Message>
  void tell(Message value) const {
    caf::anon_send(remote_, value);
  }
  std::uint64_t formed() const { return *formed_; }
  std::int32_t leaving() const { return *leaving_; }
  bool ended() const { return *ended_; }

private:
  std::shared_ptr<std::atomic<std::uint64_t>> formed_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::shared_ptr<std::atomic<std::int32_t>> leaving_ = std::make_shared<std::atomic<std::int32_t>>(-1);
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  loop_system system_;
  remote_rendezvous_actor remote_;
  caf::actor watcher_;
};

template <class Condition>
void wait_until(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

/// Plays a process without the secret at the port of a rendezvous: it ends `calls` handshakes with an alert.
void impersonate(std::uint16_t port, int calls) {
  const auto listener = open_listener("127.0.0.1", port);
  INFO((listener ? std::string() : listener.error().text));
  REQUIRE(listener);
  constexpr std::array<unsigned char, 7> decrypt_error{21, 3, 3, 0, 2, 2, 51};
  for (int i = 0; i < calls; ++i) {
    pollfd waiting{listener->get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 60'000) == 1);
    const auto caller = accept_one(listener->get());
    REQUIRE(caller.socket);
    std::array<std::byte, 1024> hello;
    pollfd said{caller.socket.get(), POLLIN, 0};
    REQUIRE(::poll(&said, 1, 60'000) == 1);
    REQUIRE(::recv(caller.socket.get(), hello.data(), hello.size(), 0) > 0);
    REQUIRE(::send(caller.socket.get(), decrypt_error.data(), decrypt_error.size(), MSG_NOSIGNAL) == 7);
  }
}

/// One run of a rendezvous for two members and at most one more.
class rendezvous_run {
public:
  rendezvous_run(const std::string& journal_path, std::uint16_t port, std::uint32_t draw) {
    rendezvous_options options;
    options.members = {2, true, 1, 3};
    options.links.credentials = std::make_shared<const tls_credentials>(secret);
    auto book = journal::open(journal_path);
    INFO((book ? std::string() : book.error().text));
    REQUIRE(book);
    options.journal = std::move(*book);
    options.port = port;
    options.apart = true;
    options.draw = draw;
    options.stepped_down = [down = down_] { *down = true; };
    auto service = start_rendezvous(system_.get(), options);
    INFO((service ? std::string() : service.error().text));
    REQUIRE(service);
    actor_ = service->actor;
    port_ = service->port;
  }
  ~rendezvous_run() { caf::anon_send(actor_, close_atom::value); }

  template <class Message>
  void tell(Message value) const {
    caf::anon_send(actor_, value);
  }
  std::uint16_t port() const { return port_; }
  bool stepped_down() const { return *down_; }

private:
  std::shared_ptr<std::atomic<bool>> down_ = std::make_shared<std::atomic<bool>>(false);
  loop_system system_;
  rendezvous_actor actor_;
  std::uint16_t port_ = 0;
};

std::future<expected<member_ptr>> start(std::int32_t slot, std::uint16_t port, std::uint64_t epoch = 0) {
  options options;
  options.read_environment = false;
  options.secret = secret;
  options.epoch = epoch;
  options.settings = {{"HOROVOD_ELASTIC", "1"},
                      {"HOROVOD_RANK", std::to_string(slot)},
                      {"HOROVOD_SIZE", "2"},
                      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                      {"HOROVOD_GLOO_RENDEZVOUS_PORT", std::to_string(port)}};
  return std::async(std::launch::async, [options] { return runtime::start(options); });
}

member_ptr joined(std::future<expected<member_ptr>>& starting_member) {
  auto member = starting_member.get();
  INFO((member ? std::string() : member.error().text));
  REQUIRE(member);
  return std::move(*member);
}

std::vector<member_ptr> both(std::uint16_t port, std::uint64_t epoch = 0) {
  auto first = start(0, port, epoch), second = start(1, port, epoch);
  std::vector<member_ptr> members;
  members.push_back(joined(first));
  members.push_back(joined(second));
  return members;
}

void await_return(const std::vector<member_ptr>& members, std::uint64_t later_than) {
  for (const auto& member : members)
    wait_until([&] { return member->epoch() > later_than; });
}

/// A job of two members whose rendezvous has a journal; it can end, and run again at the same port.
class two_member_job {
public:
  two_member_job() {
    run_rendezvous(first_draw);
    port = serving->port();
  }

protected:
  static constexpr std::uint32_t first_draw = 5;

  /// `draw` is the random part of the epoch of this run.
  void run_rendezvous(std::uint32_t draw, const char* journal = "journal") {
    serving.emplace(directory.file(journal), port, draw);
  }
  void end_rendezvous() { serving.reset(); }

  /// Tells the rendezvous or the launcher that both slots have started, and returns the members once they have joined.
  template <class Receiver>
  std::vector<member_ptr> start_members(const Receiver& receiver) const {
    for (std::int32_t slot : {0, 1})
      receiver.tell(slot_started{slot});
    return both(port);
  }

  const temporary_folder directory;
  std::optional<rendezvous_run> serving;
  std::uint16_t port = 0;
};

} // namespace

TEST_CASE_METHOD(two_member_job,
                 "members train on without a rendezvous, and return to it when it is started again") {
  auto members = start_members(*serving);
  const auto before = members[0]->epoch();
  end_rendezvous();
  CHECK(counted(members) == 2.0F);
  run_rendezvous(2);
  await_return(members, before);
  CHECK(counted(members) == 2.0F);
  CHECK(members[0]->generation() == 1);

  serving->tell(slot_started{2});
  auto third = start(2, port);
  for (const auto& member : members)
    wait_until([&] { return member->membership_change().first > 0; });
  CHECK(counted(members) == 2.0F);
  const auto epoch = members[0]->epoch();
  members.clear();
  members = both(port, epoch);
  members.push_back(joined(third));
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->generation() == 2);
}

TEST_CASE_METHOD(two_member_job, "the survivors of a loss wait for a rendezvous that is down") {
  auto members = start_members(*serving);
  const auto epoch = members[0]->epoch();
  end_rendezvous();
  members.clear(); // both members leave, and one of them starts again
  auto survivor = start(0, port, epoch);
  run_rendezvous(2);
  serving->tell(slot_exited{1, "was killed by signal 9"});
  auto alone = joined(survivor);
  CHECK(alone->size() == 1);
  CHECK(alone->generation() == 2);
  CHECK(alone->must_sync());
}

TEST_CASE_METHOD(two_member_job,
                 "a stranger at the port of a rendezvous that is down ends neither launcher nor members") {
  const launcher_connection launcher(port, 7);
  auto members = start_members(launcher);
  const auto before = members[0]->epoch();
  end_rendezvous();
  SECTION("while training goes on") {
    impersonate(port, 9);
    CHECK(counted(members) == 2.0F);
  }
  SECTION("while survivors wait for the rendezvous") {
    members.clear();
    auto first = start(0, port, before), second = start(1, port, before);
    impersonate(port, 9);
    run_rendezvous(2);
    members.push_back(joined(first));
    members.push_back(joined(second));
    CHECK(counted(members) == 2.0F);
  }
  if (!serving)
    run_rendezvous(2);
  await_return(members, before);
  CHECK_FALSE(launcher.ended());
}

TEST_CASE("a member whose first contact does not know the job's secret fails at once") {
  auto unused = open_listener("127.0.0.1", 0);
  REQUIRE(unused);
  const auto port = port_of(*unused);
  unused->close();
  auto lone = start(0, port);
  impersonate(port, 1);
  const auto member = lone.get();
  REQUIRE_FALSE(member);
  CHECK_THAT(member.error().text,
             Catch::Contains("127.0.0.1:" + std::to_string(port)) && Catch::Contains("secret"));
}

TEST_CASE_METHOD(two_member_job,
                 "of two rendezvous with copies of one journal, the one with the lower epoch steps down") {
  auto members = start_members(*serving);
  const auto first = members[0]->epoch();
  end_rendezvous();
  std::filesystem::copy_file(directory.file("journal"), directory.file("copy"));

  run_rendezvous(20);
  await_return(members, first);
  const auto second = members[0]->epoch();
  CHECK(members[1]->epoch() == second);
  end_rendezvous();
  run_rendezvous(10, "copy"); // as many runs, but a lower random part of the epoch
  wait_until([&] { return serving->stepped_down(); });
  CHECK(counted(members) == 2.0F);
  CHECK(members[0]->epoch() == second);
  end_rendezvous();
  run_rendezvous(1);
  await_return(members, second);
  CHECK(members[0]->generation() == 1);
}

TEST_CASE_METHOD(two_member_job, "a rendezvous that is started again without its journal steps down") {
  auto members = start_members(*serving);
  end_rendezvous();
  run_rendezvous(first_draw - 1, "other");
  wait_until([&] { return serving->stepped_down(); });
  CHECK(counted(members) == 2.0F);
}

TEST_CASE_METHOD(two_member_job, "a launcher reports missed slot events to a rendezvous that was down") {
  const launcher_connection launcher(port, 7);
  auto members = start_members(launcher);
  const auto epoch = members[0]->epoch();
  wait_until([&] { return launcher.formed() == 1; });

  end_rendezvous();
  auto third = start(2, port); // its hello may arrive before the launcher's report
  launcher.tell(slot_started{2});
  launcher.tell(slot_exited{1, "was killed by signal 9"});
  members.pop_back();
  members.clear();
  auto survivor = start(0, port, epoch);
  run_rendezvous(2);
  members.push_back(joined(survivor));
  wait_until([&] { return launcher.formed() >= 2; });
  // The third member is in this generation already, or joins at the next change of members.
  if (members[0]->size() == 1) {
    wait_until([&] { return members[0]->membership_change().first > 0; });
    const auto current_time = members[0]->epoch();
    members.clear();
    survivor = start(0, port, current_time);
    members.push_back(joined(survivor));
  }
  members.push_back(joined(third));
  CHECK(counted(members) == 2.0F);
  CHECK(members[0]->rank() == 0);
}

TEST_CASE_METHOD(two_member_job, "a rendezvous that was started again refuses the launcher of another job") {
  {
    const launcher_connection first(port, 7);
    start_members(first);
    wait_until([&] { return first.formed() == 1; });
    CHECK_FALSE(first.ended());
  }
  end_rendezvous();
  run_rendezvous(2);
  const launcher_connection other(port, 8);
  wait_until([&] { return other.ended(); });
}

TEST_CASE_METHOD(two_member_job,
                 "a drain lets members leave if the rendezvous runs apart from the launcher") {
  const job_target target{"127.0.0.1", port, secret};
  {
    drain_call early(target, {wire_version, {1}, {}});
    const auto refused = early.next(patience);
    REQUIRE(refused);
    CHECK_THAT(refused->problem, Catch::Contains("launcher is not connected"));
  }
  const launcher_connection launcher(port, 7);
  auto members = start_members(launcher);
  wait_until([&] { return launcher.formed() == 1; });

  drain_call call(target, {wire_version, {1}, {}});
  const auto plan = call.next(patience);
  REQUIRE(plan);
  CHECK(*plan == draining{"", {{1, 5, "here"}}, false});
  const auto draining_result = call.next(patience);
  REQUIRE(draining_result);
  CHECK(draining_result->all_out);

  members[1]->withdraw();
  wait_until([&] { return launcher.leaving() == 1; });
  await_changes(members, 1);
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
}
