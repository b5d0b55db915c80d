// If any step of an operation fails, on the host or in the cross-host group, the operation ends with the
// error of that step. Each test runs one member; fakes replace its neighbours and its cross-host group.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/hierarchical/hierarchical.hpp"
#include "collectives/transport/p2p/steps_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

struct levels_of_steps : steps {
  std::vector<std::chrono::steady_clock::time_point> deadlines; ///< of the operations of the neighbours
};

/// Replaces the neighbours: each operation, and each swap of an Adasum, is one step that completes at once.
class host_of_steps final : public path, public adasum_carrier, adasum_transport {
public:
  explicit host_of_steps(levels_of_steps& counted) : steps_(counted) {}
  std::string_view name() const override { return "steps"; }
  outcome run(const work&, const deadline_and_abort& deadline) override {
    steps_.deadlines.push_back(deadline.deadline);
    return {steps_.take()};
  }
  outcome carry(const work&, const deadline_and_abort&, const adasum_exchange& value) override {
    return {value(*this)};
  }

private:
  error swap(adasum_phase, std::int32_t, std::span<const std::byte>, std::span<std::byte> bytes,
             std::size_t) override {
    if (!bytes.empty())
      std::memset(bytes.data(), 0, bytes.size());
    return steps_.take();
  }
  levels_of_steps& steps_;
};

struct scenario {
  operation op;
  reduce_op reduction;
  std::size_t count; ///< number of floats
};

/// The error of `rank` of four members on two hosts.
error played(const scenario& all, std::int32_t rank, levels_of_steps& counted) {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  auto topology = hierarchy::of(hosts, rank);
  std::unique_ptr<p2p_path> cross_host_group;
  if (topology.in_cross_host_group())
    cross_host_group = std::make_unique<p2p_path>(
        "steps", std::make_unique<messenger_of_steps>(counted, static_cast<std::int32_t>(topology.host), 2),
        p2p_options{});
  hierarchical_path levels(topology, std::make_unique<host_of_steps>(counted), std::move(cross_host_group));
  const bundle_of own(all.op, all.count, hosts.size(), dtype::float32, all.reduction);
  abort_token abort;
  return levels.run(own.bundle, {abort, far(), "test deadline"}).error;
}

/// The error if this step fails, and the number of steps.
std::pair<error, std::size_t> played(const scenario& all, std::int32_t rank, std::size_t failing) {
  levels_of_steps counted;
  counted.failing = failing;
  auto ended = played(all, rank, counted);
  return {std::move(ended), counted.taken};
}

} // namespace

TEST_CASE("hierarchical: a failure of any step fails its operation") {
  const auto all = GENERATE(scenario{operation::allreduce, reduce_op::sum, 100},
                            scenario{operation::allreduce, reduce_op::sum, 900'000},
                            scenario{operation::allreduce, reduce_op::adasum, 1'000},
                            scenario{operation::allgather, reduce_op::sum, 100},
                            scenario{operation::allgather, reduce_op::sum, 500'000});
  const std::int32_t rank = GENERATE(range(0, 4));
  const auto [none, count] = played(all, rank, SIZE_MAX);
  INFO("operation " << static_cast<int>(all.op) << " of " << all.count << " floats, rank " << rank << ", "
                    << count << " steps");
  REQUIRE(none.text == "");
  REQUIRE(count > 1);
  for (std::size_t failing = 0; failing < count; ++failing)
    CHECK_THAT(played(all, rank, failing).first.text, Catch::EndsWith("step " + std::to_string(failing)));
}

TEST_CASE("hierarchical: each step on the host has the whole timeout, however long the operation has taken") {
  levels_of_steps counted;
  REQUIRE_FALSE(played({operation::allreduce, reduce_op::sum, 900'000}, 0, counted));
  REQUIRE(counted.deadlines.size() > 2);
  CHECK(std::ranges::adjacent_find(counted.deadlines, std::greater_equal<>{}) == counted.deadlines.end());
}
