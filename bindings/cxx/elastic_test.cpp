// Jobs whose members change, in one process: what a host driver would tell the rendezvous is told here.
#include <catch2/catch.hpp>

#include <future>
#include <memory>
#include <vector>

#include "bindings/cxx/runtime_testing.hpp"

using namespace farandole;

namespace {

using member_ptr = std::unique_ptr<runtime>;
using starting = std::future<expected<member_ptr>>;

class elastic_job : public job {
public:
  elastic_job(std::int32_t size, std::int32_t most)
      : job({.size = size, .elastic = true, .least = 1, .most = most}, {{"HOROVOD_ELASTIC", "1"}}) {
    for (std::int32_t slot = 0; slot < size; ++slot)
      tell(slot_started{slot});
  }

  template <class Message>
  void tell(Message what) const {
    caf::anon_send(rendezvous(), what);
  }

  starting start(std::int32_t slot) const {
    return std::async(std::launch::async, [how = options_of(slot)] { return runtime::start(how); });
  }

  /// These slots' members, once all are in.
  std::vector<member_ptr> together(const std::vector<std::int32_t>& slots) const {
    std::vector<starting> all;
    for (auto slot : slots)
      all.push_back(start(slot));
    std::vector<member_ptr> members;
    for (auto& one : all)
      members.push_back(in(one));
    return members;
  }

  static member_ptr in(starting& one) {
    auto member = one.get();
    INFO((member ? std::string() : member.error().text));
    REQUIRE(member);
    return std::move(*member);
  }
};

/// The sum of everybody's 1, by all of them.
float counted(std::vector<member_ptr>& members) {
  std::vector<floats> tensors(members.size());
  std::vector<handle> handles;
  for (std::size_t i = 0; i < members.size(); ++i) {
    tensors[i].in = {1.0F};
    auto asked = members[i]->submit(tensors[i].ask("count"));
    REQUIRE(asked);
    handles.push_back(std::move(*asked));
  }
  for (auto& each : handles)
    REQUIRE_FALSE(each.wait());
  return tensors[0].out[0];
}

/// How pending and later operations end.
error ending(runtime& member) {
  floats tensor{{1.0F}, {}};
  auto asked = member.submit(tensor.ask("ending"));
  return asked ? asked->wait() : asked.error();
}

/// Returns when all members know of so many changes.
void told_of(const std::vector<member_ptr>& members, std::uint64_t changes) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  for (auto& one : members)
    while (one->membership_change().first < changes) {
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::yield();
    }
}

} // namespace

TEST_CASE("survivors of a loss go on in the next generation, in their old order") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  job.tell(slot_exited{0, "was killed by signal 9"});
  for (std::size_t survivor : {1, 2}) {
    const auto why = ending(*members[survivor]);
    CHECK(why.kind == error_kind::disconnected);
    CHECK_THAT(why.text, Catch::Contains("rank 0") && Catch::Contains("was killed by signal 9"));
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

TEST_CASE("a new member waits, the others hear of it, and all go on together") {
  const elastic_job job(2, 3);
  auto members = job.together({0, 1});
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{0, false});
  job.tell(slot_started{2});
  auto waiting = job.start(2);
  told_of(members, 1);
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, false});
  CHECK(counted(members) == 2.0F);
  members.clear();
  members = job.together({0, 1});
  members.push_back(elastic_job::in(waiting));
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  CHECK(members[2]->joined_late());
  CHECK(members[2]->rank() == 2);
}

TEST_CASE("a slot that is taken out is dismissed, and the others need not sync") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  job.tell(slot_retired{1});
  told_of(members, 1);
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

TEST_CASE("a member that withdraws leaves as if it were taken out, and knows of it at once") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  members[1]->withdraw();
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  told_of(members, 1);
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

TEST_CASE("a process that the launcher has not started is turned away") {
  const elastic_job job(1, 2);
  auto members = job.together({0});
  auto stranger = job.start(5).get();
  REQUIRE_FALSE(stranger);
  CHECK_THAT(stranger.error().text, Catch::Contains("slot 5 was not started by this job's launcher"));
  CHECK(counted(members) == 1.0F);
}
