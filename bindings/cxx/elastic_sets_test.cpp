// Process sets while members join and leave.
#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>
#include <vector>

#include "bindings/cxx/elastic_testing.hpp"

using namespace farandole;

namespace {

using numbers = std::vector<std::int32_t>;
using table = std::map<std::uint32_t, numbers>;

const set_rule even_ranks = [](const member_facts& facts) { return facts.rank % 2 == 0; };

/// Runs an allreduce in every set at once, and checks the sums and that other members are refused.
void all_sets_work(const std::vector<member_ptr>& members) {
  for (auto& [id, ranks] : members.front()->process_sets()) {
    std::vector<floats> tensors(members.size());
    std::vector<handle> handles;
    float wanted = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      auto& member = *members[i];
      const auto in = std::find(ranks.begin(), ranks.end(), member.rank()) != ranks.end();
      tensors[i].in = {static_cast<float>(10 + member.rank())};
      auto request = tensors[i].ask("sum");
      request.set = id;
      auto asked = member.submit(request);
      if (!in) {
        CHECK_FALSE(asked);
        continue;
      }
      INFO((asked ? std::string() : asked.error().text));
      REQUIRE(asked);
      handles.push_back(std::move(*asked));
      wanted += tensors[i].in[0];
    }
    for (auto& handle : handles)
      CHECK_FALSE(handle.wait());
    for (std::size_t i = 0; i < members.size(); ++i)
      if (std::find(ranks.begin(), ranks.end(), members[i]->rank()) != ranks.end())
        CHECK(tensors[i].values[0] == wanted);
  }
}

class job_with_sets : public started_job {
public:
  using started_job::started_job;

  std::vector<numbers> lists;
  std::vector<set_rule> rules;

  options first(std::int32_t slot) const {
    auto options = options_of(slot);
    options.process_sets = lists;
    options.set_rules = rules;
    return options;
  }

  /// Starts the next generation, in which each member keeps its sets of the generation before.
  std::vector<member_ptr> again(const std::vector<std::int32_t>& slots,
                                const std::vector<std::vector<kept_set>>& before) const {
    std::vector<options> all;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      all.push_back(first(slots[i]));
      all.back().process_sets.clear();
      all.back().sets_before = before[i];
    }
    return all_of(all);
  }

  static std::vector<member_ptr> all_of(const std::vector<options>& all) {
    std::vector<starting> begun;
    for (auto& options : all)
      begun.push_back(start(options));
    std::vector<member_ptr> members;
    for (auto& starting_member : begun)
      members.push_back(joined(starting_member));
    return members;
  }

  std::vector<member_ptr> begin(std::int32_t size) const {
    std::vector<options> all;
    for (std::int32_t slot = 0; slot < size; ++slot)
      all.push_back(first(slot));
    return all_of(all);
  }
};

std::vector<expected<std::uint32_t>> add_on(const std::vector<member_ptr>& members, const numbers& ranks) {
  std::vector<std::future<expected<std::uint32_t>>> calls;
  for (auto& member : members)
    calls.push_back(std::async(std::launch::async, [&] { return member->add_process_set(ranks); }));
  std::vector<expected<std::uint32_t>> ids;
  for (auto& call : calls)
    ids.push_back(call.get());
  return ids;
}

std::vector<std::vector<kept_set>> sets_of(const std::vector<member_ptr>& members) {
  std::vector<std::vector<kept_set>> all;
  for (auto& member : members)
    all.push_back(member->kept_sets());
  return all;
}

} // namespace

TEST_CASE("sets from the start and added sets keep their ids and remaining members after a loss") {
  job_with_sets job(4, 4);
  job.lists = {{0, 2}, {3}};
  auto members = job.begin(4);
  for (auto& id : add_on(members, {1, 3}))
    CHECK(*id == 3);
  all_sets_work(members);
  auto kept = sets_of(members);
  job.exited(0, "was killed by signal 9");
  for (std::size_t survivor : {1, 2, 3})
    CHECK(ending(*members[survivor]).kind == error_kind::disconnected);
  members.clear();
  members = job.again({1, 2, 3}, {kept[1], kept[2], kept[3]});
  for (auto& member : members)
    CHECK(member->process_sets() == table{{0, {0, 1, 2}}, {1, {1}}, {2, {2}}, {3, {0, 2}}});
  all_sets_work(members);
  // Once more, without a loss: all members leave and start again.
  kept = sets_of(members);
  members.clear();
  members = job.again({1, 2, 3}, kept);
  CHECK(members[2]->process_sets() == table{{0, {0, 1, 2}}, {1, {1}}, {2, {2}}, {3, {0, 2}}});
  all_sets_work(members);
}

TEST_CASE("two sets that shrink to the same ranks stay separate, and a set without members is removed") {
  job_with_sets job(4, 4);
  job.lists = {{0, 1}, {0, 2}, {1, 2}};
  auto members = job.begin(4);
  auto kept = sets_of(members);
  job.exited(1, "was killed by signal 9");
  job.exited(2, "was killed by signal 9");
  for (std::size_t survivor : {0, 3})
    CHECK(ending(*members[survivor]).kind == error_kind::disconnected);
  members.clear();
  members = job.again({0, 3}, {kept[0], kept[3]});
  CHECK(members[0]->process_sets() == table{{0, {0, 1}}, {1, {0}}, {2, {0}}});
  all_sets_work(members);
  for (auto& refused : add_on(members, {0})) {
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().text, Catch::Contains("exists already: it has id 1"));
  }
  for (auto& id : add_on(members, {1}))
    CHECK(*id == 3);
  all_sets_work(members);
}

TEST_CASE("a member that joins is in the sets whose rule admits it, and learns the members of the others") {
  job_with_sets job(2, 3);
  job.lists = {{0, 1}, {1}};
  job.rules = {even_ranks};
  auto members = job.begin(2);
  CHECK(members[0]->process_sets() == table{{0, {0, 1}}, {1, {1}}, {2, {0}}});
  auto kept = sets_of(members);
  job.started(2);
  auto waiting = job.start(job.first(2));
  await_changes(members, 1);
  members.clear();
  members = job.again({0, 1}, kept);
  members.push_back(started_job::joined(waiting));
  for (auto& member : members)
    CHECK(member->process_sets() == table{{0, {0, 1, 2}}, {1, {1}}, {2, {0, 2}}});
  CHECK(members[2]->kept_sets() == members[0]->kept_sets());
  all_sets_work(members);
}

TEST_CASE("a set rule with different results on two members fails on both, and the error has both results") {
  job_with_sets job(2, 2);
  std::vector<options> all{job.first(0), job.first(1)};
  all[0].set_rules = {even_ranks};
  all[1].set_rules = {[](const member_facts& facts) { return facts.rank == 1; }};
  auto starting = job.start(all[0]);
  auto other = job.start(all[1]);
  for (auto* starting_member : {&starting, &other}) {
    const auto refused = starting_member->get();
    REQUIRE_FALSE(refused);
    CHECK_THAT(
        refused.error().text,
        Catch::Contains("process set 1, but on rank 0 it has ranks [0] and on rank 1 it has ranks [1]"));
  }
}

TEST_CASE("a set that one survivor does not know is not kept") {
  const job_with_sets job(2, 2);
  auto members = job.begin(2);
  for (auto& id : add_on(members, {1}))
    CHECK(*id == 1);
  auto kept = sets_of(members);
  members.clear();
  // As if the call of member 1 had ended with an error.
  kept[1].clear();
  members = job.again({0, 1}, kept);
  CHECK(members[0]->process_sets() == table{{0, {0, 1}}});
  CHECK(members[0]->kept_sets().empty());
  for (auto& id : add_on(members, {1}))
    CHECK(*id == 1);
  all_sets_work(members);
}
