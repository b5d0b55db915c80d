// Jobs whose members are lost, join and leave.
#include <catch2/catch.hpp>

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/loop.hpp"
#include "bindings/cxx/elastic_testing.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/record/event_reader.hpp"
#include "messages/record/event_region.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/wire/membership.hpp"

using namespace farandole;

TEST_CASE("the survivors of a loss start the next generation in their old order") {
  const started_job job(3, 3);
  auto members = job.together({0, 1, 2});
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  job.exited(0, "was killed by signal 9");
  for (std::size_t survivor : {1, 2}) {
    const auto reason = ending(*members[survivor]);
    CHECK(reason.kind == error_kind::disconnected);
    CHECK_THAT(reason.text, Catch::Contains("rank 0") && Catch::Contains("was killed by signal 9"));
  }
  members.clear();
  auto survivors = job.together({1, 2});
  CHECK(counted(survivors) == 2.0F);
  CHECK(survivors[0]->rank() == 0);
  CHECK(survivors[1]->rank() == 1);
  CHECK(survivors[0]->local_size() == 2);
  CHECK(survivors[0]->generation() == 2);
  CHECK(survivors[0]->must_sync());
}

namespace {

/// What a process has recorded on its way through generations: the phases or events, each with the generation's number.
std::vector<std::string> recorded_way(const std::string& path) {
  auto region = event_region::open(path, 4096);
  REQUIRE(region);
  const auto record = read_event_record((*region)->bytes());
  REQUIRE(record);
  std::map<std::uint64_t, std::string> way; // by time
  for (const auto& thread : record->threads)
    for (const auto& entry : thread.events) {
      if (entry.kind != event_kind::generation_begin && entry.kind != event_kind::generation_end &&
          entry.kind != event_kind::regroup)
        continue;
      const auto text = entry.kind == event_kind::regroup
                            ? to_string(static_cast<regroup_phase>(entry.detail))
                            : find_event_row(entry.kind)->text;
      way[entry.ticks] = std::string(text) + " " + std::to_string(entry.first);
    }
  std::vector<std::string> texts;
  for (const auto& [ticks, text] : way)
    texts.push_back(text);
  return texts;
}

} // namespace

TEST_CASE("a process records its way from one generation to the next") {
  const started_job job(2, 2);
  auto path = (std::filesystem::temp_directory_path() / "recorded-way-XXXXXX").string();
  const descriptor file(::mkstemp(path.data()));
  REQUIRE(file);
  auto recorded = job.options_of(1);
  recorded.settings["FARANDOLE_RECORDER_FILE"] = path;
  auto other = job.start(0), first = job.start(recorded);
  auto lost = started_job::joined(other), survivor = started_job::joined(first);
  job.exited(0, "was killed by signal 9");
  CHECK(ending(*survivor).kind == error_kind::disconnected);
  survivor.reset();
  auto second = job.start(recorded);
  survivor = started_job::joined(second);
  const auto way = recorded_way(path);
  ::unlink(path.c_str());
  CHECK(way == std::vector<std::string>{"waiting 0", "connecting 1", "generation begin 1", "lost 1",
                                        "generation end 1", "waiting 1", "connecting 2",
                                        "generation begin 2"});
}

TEST_CASE("a new member waits until the others, which are told of it, start the next generation") {
  const started_job job(2, 3);
  auto members = job.together({0, 1});
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{0, false});
  job.started(2);
  auto waiting = job.start(2);
  await_changes(members, 1);
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, false});
  CHECK(counted(members) == 2.0F);
  members.clear();
  members = job.together({0, 1});
  members.push_back(started_job::joined(waiting));
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  CHECK(members[2]->joined_late());
  CHECK(members[2]->rank() == 2);
}

TEST_CASE("a member whose slot is retired is dismissed, and the others need not sync") {
  const started_job job(3, 3);
  auto members = job.together({0, 1, 2});
  job.retired(1);
  await_changes(members, 1);
  CHECK(members[2]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  CHECK(counted(members) == 3.0F);
  members.clear();
  auto gone = job.start(1);
  auto rest = job.together({0, 2});
  CHECK(counted(rest) == 2.0F);
  CHECK_FALSE(rest[0]->must_sync());
  auto dismissed = gone.get();
  REQUIRE_FALSE(dismissed);
  CHECK(dismissed.error().kind == error_kind::dismissed);
}

TEST_CASE("a member that withdraws is dismissed like a retired member, and sees the change at once") {
  const started_job job(3, 3);
  auto members = job.together({0, 1, 2});
  members[1]->withdraw();
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  await_changes(members, 1);
  members[1]->withdraw();
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  members.clear();
  auto gone = job.start(1);
  auto rest = job.together({0, 2});
  CHECK(counted(rest) == 2.0F);
  CHECK_FALSE(rest[0]->must_sync());
  auto dismissed = gone.get();
  REQUIRE_FALSE(dismissed);
  CHECK(dismissed.error().kind == error_kind::dismissed);
}

TEST_CASE("a process in a slot that the launcher has not started is refused") {
  const started_job job(1, 2);
  auto members = job.together({0});
  auto stranger = job.start(5).get();
  REQUIRE_FALSE(stranger);
  CHECK_THAT(stranger.error().text, Catch::Contains("slot 5 was not started by this job's launcher"));
  CHECK(counted(members) == 1.0F);
}

namespace {

/// A process that sends a hello and never connects: the members that are welcomed with it wait for it.
class silent_member {
public:
  silent_member(const job& job, std::int32_t slot, std::int32_t size = 1) {
    link_settings links;
    links.credentials = std::make_shared<const tls_credentials>(secret);
    dial(system_.get(), "127.0.0.1", job.port(), caf::actor_cast<caf::actor>(self_), 1, links);
    hello me;
    me.slot = slot;
    me.size = size;
    me.host = me.host_name = "elsewhere";
    me.address = "127.0.0.1:1";
    me.process = 1'000'000 + slot;
    self_->receive(
        [&](const link_opened& event) {
          link_ = event.handle;
          caf::anon_send(link_, encode(address{}, me));
        },
        caf::after(patience) >> [] { FAIL("the rendezvous was not reached"); });
  }
  ~silent_member() { caf::anon_send(link_, close_atom::value); }

  void await_welcome() {
    bool welcomed = false;
    self_->receive_while([&] { return !welcomed; })(
        [&](const link_received& event) { welcomed = event.message.kind() == wire::Envelope::Body::WELCOME; },
        caf::after(patience) >> [] { FAIL("no welcome came"); });
  }

private:
  static constexpr std::chrono::seconds patience{60};
  loop_system system_;
  caf::scoped_actor self_{system_.get()};
  caf::actor link_;
};

} // namespace

TEST_CASE("a member lost during the first connect moves the other members to the next generation") {
  const started_job job(3, 3);
  auto first = job.start(0), second = job.start(1);
  silent_member third(job, 2);
  third.await_welcome();
  job.exited(2, "was killed by signal 9");
  std::vector<member_ptr> members;
  members.push_back(started_job::joined(first));
  members.push_back(started_job::joined(second));
  CHECK(counted(members) == 2.0F);
  CHECK(members[0]->generation() == 2);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  CHECK_FALSE(members[1]->joined_late());
}

TEST_CASE("a member lost during a reconnect keeps neither old nor new members from the next generation") {
  const started_job job(2, 4);
  auto members = job.together({0, 1});
  auto added = std::async(std::launch::async, [&] { return members[1]->add_process_set({1}); });
  REQUIRE(members[0]->add_process_set({1}));
  REQUIRE(added.get());
  job.started(2);
  job.started(3);
  silent_member third(job, 2);
  auto fourth = job.start(3);
  await_changes(members, 2);
  std::vector<starting> again;
  for (std::size_t slot : {0, 1}) {
    auto options = job.options_of(static_cast<std::int32_t>(slot));
    options.sets_before = members[slot]->kept_sets();
    members[slot].reset();
    again.push_back(started_job::start(options));
  }
  third.await_welcome();
  job.exited(2, "was killed by signal 9");
  members.clear();
  for (auto& starting_member : again)
    members.push_back(started_job::joined(starting_member));
  members.push_back(started_job::joined(fourth));
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->generation() == 3);
  CHECK_FALSE(members[0]->joined_late());
  CHECK(members[2]->joined_late());
  for (auto& member : members)
    CHECK(member->process_sets().at(1) == std::vector<std::int32_t>{1});
}

TEST_CASE("a job that is not elastic fails if a member is lost while others connect, and names the member") {
  job fixed(2);
  auto first = started_job::start(fixed.options_of(0));
  silent_member second(fixed, 1, 2);
  second.await_welcome();
  fixed.exited(1, "was killed by signal 9");
  const auto reason = first.get();
  REQUIRE_FALSE(reason);
  CHECK(reason.error().kind == error_kind::unknown);
  CHECK(reason.error().text ==
        "rank 1 on elsewhere was killed by signal 9 before all members were connected");
}

TEST_CASE("an elastic job with oneCCL fails at the start, and the error names the setting to unset") {
  options options;
  options.read_environment = false;
  options.settings = {{"HOROVOD_ELASTIC", "1"}, {"HOROVOD_CPU_OPERATIONS", "ccl"}};
  const auto reason = runtime::start(options);
  REQUIRE_FALSE(reason);
  CHECK(reason.error().kind == error_kind::precondition);
  CHECK_THAT(reason.error().text, Catch::Contains("Unset HOROVOD_CPU_OPERATIONS"));
}

namespace {

/// The resources that this process uses.
struct process_resources {
  std::size_t heap_bytes =
      mallinfo2().uordblks; ///< including memory that threads keep for later calls; 0 under sanitizers
  std::size_t resident_kib = resident();
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");

  static std::size_t entries(const char* folder) {
    const std::filesystem::directory_iterator first{folder};
    return static_cast<std::size_t>(std::distance(first, std::filesystem::directory_iterator{}));
  }
  static std::size_t resident() {
    std::size_t all = 0, index = 0;
    std::ifstream("/proc/self/statm") >> all >> index;
    return index * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
  }
};

/// A job of two members, which a third member joins and leaves `guests` times: two generations each time.
void join_and_leave(std::int32_t guests) {
  const started_job job(2, 3);
  auto members = job.together({0, 1});
  for (std::int32_t guest = 2; guest < 2 + guests; ++guest) {
    job.started(guest);
    auto coming = job.start(guest);
    await_changes(members, 1);
    members.clear();
    members = job.together({0, 1});
    members.push_back(started_job::joined(coming));
    REQUIRE(counted(members) == 3.0F);
    job.retired(guest);
    await_changes(members, 1);
    members.clear();
    auto going = job.start(guest);
    members = job.together({0, 1});
    REQUIRE(counted(members) == 2.0F);
    auto gone = going.get();
    REQUIRE_FALSE(gone);
    REQUIRE(gone.error().kind == error_kind::dismissed);
    job.exited(guest, "exited with code 0");
  }
  CHECK(members[0]->generation() == static_cast<std::uint64_t>(2 * guests + 1));
}

/// Waits until this process has no more descriptors and threads than `early`, and returns what it uses then. The
/// kernel may still count a thread that has been joined, because a join returns before the thread is removed.
process_resources settled(const process_resources& early) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  process_resources late;
  while ((late.descriptors > early.descriptors || late.threads > early.threads) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    late = {};
  }
  return late;
}

} // namespace

TEST_CASE("a hundred changes of members leak no memory, descriptors or threads") {
  join_and_leave(5);
  const process_resources early;
  join_and_leave(50);
  const process_resources late = settled(early);
  CHECK(late.heap_bytes <= early.heap_bytes + 64 * 1024);
  CHECK(late.descriptors <= early.descriptors);
  CHECK(late.threads <= early.threads);
  if (late.heap_bytes > 0)
    CHECK(late.resident_kib <= early.resident_kib + 4 * 1024);
}
