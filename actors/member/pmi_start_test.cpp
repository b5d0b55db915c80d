// Ranks meet through a process manager in memory. Tests with real launchers are in tests/launch.
#include <catch2/catch.hpp>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <vector>

#include "actors/member/pmi_start.hpp"
#include "messages/settings/environment_testing.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Contains;

namespace {

using clock = std::chrono::steady_clock;
const std::string given_secret = "0123456789abcdef0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// The values and the fence that the process managers of all ranks share.
struct shared_space {
  std::int32_t size;
  std::mutex guard;
  std::condition_variable all_came;
  std::map<std::string, std::string> values;
  std::int32_t came = 0;
  std::int32_t fences = 0;
};

class manager_in_memory final : public process_manager {
public:
  manager_in_memory(shared_space& space, std::int32_t rank) : space_(space), rank_(rank) {}
  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return space_.size; }
  error put(const std::string& key, const std::string& value, time_point) override {
    const std::lock_guard lock(space_.guard);
    space_.values[key + "." + std::to_string(rank_)] = value;
    return {};
  }
  error fence(time_point deadline) override {
    std::unique_lock lock(space_.guard);
    const auto number = space_.fences;
    if (++space_.came == space_.size) {
      space_.came = 0;
      ++space_.fences;
      space_.all_came.notify_all();
    }
    if (!space_.all_came.wait_until(lock, deadline, [&] { return space_.fences != number; }))
      return {error_kind::timed_out, "no answer in time"};
    return {};
  }
  expected<std::string> get(std::int32_t rank, const std::string& key, time_point) override {
    const std::lock_guard lock(space_.guard);
    const auto found = space_.values.find(key + "." + std::to_string(rank));
    return found == space_.values.end() ? expected<std::string>(error{error_kind::unknown, "no such key"})
                                        : expected<std::string>(found->second);
  }
  void finish(time_point) override {}

private:
  shared_space& space_;
  std::int32_t rank_;
};

foreign_launch launch_of(std::int32_t rank, std::int32_t size) {
  foreign_launch launch;
  launch.launcher = "mpirun of MPICH or Intel MPI, or srun";
  launch.rank_variable = "PMI_RANK";
  launch.size_variable = "PMI_SIZE";
  launch.rank = rank;
  launch.size = size;
  launch.by = gathering::pmi;
  launch.remedy = "start the job with mpirun";
  return launch;
}

struct outcome {
  std::string problem;
  settings values = settings::built_in();
  std::string secret;
  std::unique_ptr<pmi_start> met;
};

struct rank_input {
  std::string secret = {};
  std::map<std::string, std::string> variables = {};
};

/// All ranks meet at once.
std::vector<outcome> meet(const std::vector<rank_input>& inputs) {
  shared_space space{static_cast<std::int32_t>(inputs.size()), {}, {}, {}, 0, 0};
  std::vector<std::future<outcome>> ranks;
  for (std::int32_t rank = 0; rank < space.size; ++rank) {
    const auto& input = inputs[static_cast<std::size_t>(rank)];
    auto values = settings_of(input.variables);
    ranks.push_back(std::async(std::launch::async, [&space, rank, values, secret = input.secret]() mutable {
      manager_in_memory manager(space, rank);
      outcome found;
      auto met =
          pmi_start::meet(values, secret, launch_of(rank, space.size), manager, clock::now() + patience);
      if (met)
        found.met = std::move(*met);
      else
        found.problem = met.error().text;
      found.values = values;
      found.secret = secret;
      return found;
    }));
  }
  std::vector<outcome> found;
  for (auto& rank : ranks)
    found.push_back(rank.get());
  return found;
}

} // namespace

TEST_CASE("ranks on one host get the address and the new secret of a rendezvous on the loopback interface",
          "[pmi]") {
  const auto ranks = meet({{}, {}, {}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    INFO(ranks[rank].problem);
    REQUIRE(ranks[rank].problem.empty());
    const auto& values = ranks[rank].values;
    CHECK(values.text(setting::rendezvous_address) == "127.0.0.1");
    CHECK(values.integer(setting::rendezvous_port) == ranks[0].values.integer(setting::rendezvous_port));
    CHECK(values.integer(setting::rank) == static_cast<std::int64_t>(rank));
    CHECK(values.integer(setting::size) == 3);
    CHECK(ranks[rank].secret.size() == 64);
    CHECK(ranks[rank].secret == ranks[0].secret);
  }
  CHECK(ranks[0].values.integer(setting::rendezvous_port) > 0);
}

TEST_CASE("a secret that all ranks have is kept, and is not published", "[pmi]") {
  const auto ranks = meet({{given_secret}, {given_secret}});
  for (const auto& rank : ranks) {
    CHECK(rank.problem.empty());
    CHECK(rank.secret == given_secret);
  }
}

TEST_CASE("a secret that only some ranks have is refused by the others with the remedy", "[pmi]") {
  CHECK_THAT(meet({{given_secret}, {}})[1].problem,
             Contains("rank 0 was given a secret, and this process was not") &&
                 Contains("FARANDOLE_SECRET_FILE"));
  CHECK_THAT(meet({{}, {given_secret}})[1].problem,
             Contains("this process was given a secret, and rank 0 was not"));
}

TEST_CASE("when rank 0 cannot serve the rendezvous, the other ranks fail at once", "[pmi]") {
  // On two hosts, rank 0 listens on the interface that the user names, and there is none of this name.
  const rank_input on_a{{}, {{"FARANDOLE_HOST_ID", "a"}, {"HOROVOD_GLOO_IFACE", "nosuch0"}}};
  const auto ranks = meet({on_a, {{}, {{"FARANDOLE_HOST_ID", "b"}}}});
  CHECK_THAT(ranks[0].problem, Contains("nosuch0"));
  CHECK_THAT(ranks[1].problem, Contains("see the error of rank 0") && Contains("rank 1 of 2"));
}

TEST_CASE("a process whose peers do not call init() fails with the timeout and its setting", "[pmi]") {
  shared_space space{2, {}, {}, {}, 0, 0};
  manager_in_memory manager(space, 0);
  auto values = settings::built_in();
  std::string secret;
  const auto met = pmi_start::meet(values, secret, launch_of(0, 2), manager, clock::now());
  REQUIRE_FALSE(met);
  CHECK(met.error().kind == error_kind::timed_out);
  CHECK_THAT(met.error().text,
             Contains("rank 0 of 2") && Contains("HOROVOD_START_TIMEOUT") && Contains("HOROVOD_SIZE=1"));
}

TEST_CASE("a process manager of another size than the launcher's is refused with both numbers", "[pmi]") {
  shared_space space{1, {}, {}, {}, 0, 0};
  manager_in_memory manager(space, 0);
  auto values = settings::built_in();
  std::string secret;
  const auto met = pmi_start::meet(values, secret, launch_of(1, 2), manager, clock::now());
  REQUIRE_FALSE(met);
  CHECK_THAT(met.error().text, Contains("rank 1 of 2,") && Contains("rank 0 of 1:"));
  // The variables do not tell the size: one process may be all.
  const auto alone = pmi_start::meet(values, secret, launch_of(0, 0), manager, clock::now());
  REQUIRE(alone);
  CHECK(values.text(setting::rendezvous_address).empty());
}

TEST_CASE("only a process of a launcher with a process manager looks for its job there", "[pmi]") {
  CHECK(pmi_start::applies(settings::built_in(), launch_of(0, 2)));
  CHECK(pmi_start::applies(settings::built_in(), launch_of(0, 0)));
  CHECK_FALSE(pmi_start::applies(settings::built_in(), launch_of(0, 1)));
  CHECK_FALSE(pmi_start::applies(settings_of({{"HOROVOD_SIZE", "1"}}), launch_of(0, 2)));
  CHECK_FALSE(
      pmi_start::applies(settings_of({{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"}}), launch_of(0, 2)));
  auto by_srun = launch_of(0, 2);
  by_srun.by = gathering::nothing;
  CHECK_FALSE(pmi_start::applies(settings::built_in(), by_srun));
}
