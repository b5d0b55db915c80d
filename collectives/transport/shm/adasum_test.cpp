// Adasum on the local path: its results, and its end if a member stops. p2p_adasum_test.cpp compares other
// paths with these results.
#include "collectives/transport/adasum.hpp"

#include <catch2/catch.hpp>

#include <future>
#include <limits>

#include "collectives/transport/adasum_testing.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/shm_path.hpp"
#include "collectives/transport/solo.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("adasum: every tensor of a bundle is a separate vector, and all members get the same bits") {
  const auto members = GENERATE(1u, 2u, 4u, 8u);
  const auto type = GENERATE(dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64);
  adasum_host local_host(members, 4096, members == 4 ? 2 : 3);
  bool in_place = false;
  for (const auto& counts : adasum_counts) {
    const adasum_recipe recipe{type, counts};
    const auto outputs = local_host.run(recipe, in_place = !in_place);
    CHECK(recipe.problem_with(outputs[0], members) == "");
    for (const auto& other : outputs)
      REQUIRE(other == outputs[0]);
    CHECK(local_host.run(recipe, !in_place) == outputs); // a second run gives the same bits
  }
}

TEST_CASE("adasum: fusion and chunk size do not change the bits of the result") {
  const adasum_recipe fused{dtype::float32, {1000, 7, 30'001, 1}};
  adasum_host small(4, 4096), large(4, 1 << 20);
  const auto wanted = small.run(fused)[0];
  CHECK(large.run(fused)[0] == wanted);
  for (std::size_t part = 0; part < fused.counts.size(); ++part) {
    adasum_recipe alone{dtype::float32, {fused.counts[part]}};
    alone.first_part = part;
    CHECK(small.run(alone)[0][0] == wanted[part]);
  }
}

TEST_CASE("adasum: the prescale applies to the inputs and the postscale to the result") {
  const auto members = GENERATE(1u, 4u);
  adasum_host local_host(members);
  adasum_recipe recipe{dtype::float32, {5, 3000}};
  const auto plain = local_host.run(recipe)[0];
  recipe.prescale = 0.25;
  recipe.postscale = 8.0;
  const auto scaled = local_host.run(recipe)[0];
  for (std::size_t part = 0; part < plain.size(); ++part) {
    const auto before = numbers_of(dtype::float32, plain[part]),
               after = numbers_of(dtype::float32, scaled[part]);
    for (std::size_t at = 0; at < before.size(); ++at)
      REQUIRE(after[at] == 2.0 * before[at]); // powers of two, so the result is exact
  }
}

TEST_CASE("adasum: a member that has joined contributes a vector of zeros") {
  adasum_host local_host(2);
  const adasum_recipe recipe{dtype::float32, {5, 2000, 0}};
  const auto joined = GENERATE(0, 1);
  const auto outputs = local_host.run(recipe, false, joined);
  CHECK(outputs[static_cast<std::size_t>(1 - joined)] == recipe.inputs(1 - joined));
}

TEST_CASE("adasum: other operations work before and after it on the same shared segment") {
  adasum_host local_host(4);
  const adasum_recipe recipe{dtype::float32, {4000}};
  const auto first = local_host.run(recipe);
  for (int again = 0; again < 3; ++again) {
    std::vector<std::vector<float>> ones(4, std::vector<float>(5000, 1.0F));
    std::vector<error> errors(4);
    together(4, [&](std::uint32_t rank) {
      work sum;
      auto* memory = reinterpret_cast<std::byte*>(ones[rank].data());
      sum.parts.push_back({memory, memory, 4 * ones[rank].size(), {}});
      errors[rank] = local_host.paths[rank]->run(sum, {local_host.abort, far(), "test deadline"}).error;
    });
    CHECK(errors == std::vector<error>(4));
    CHECK(ones == std::vector(4, std::vector<float>(5000, 4.0F)));
    CHECK(local_host.run(recipe) == first);
  }
}

TEST_CASE("adasum: three members, integers and reducescatter are refused, and the path stays usable") {
  adasum_host local_host(3);
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "test deadline"};
  work task;
  task.reduce_op = reduce_op::adasum;
  const auto three = local_host.paths[0]->run(task, deadline).error;
  CHECK(three.kind == error_kind::unimplemented);
  CHECK_THAT(three.text, Catch::Contains("not 3") && Catch::Contains("2 or 4"));
  task.operation = operation::reducescatter;
  CHECK(local_host.paths[0]->run(task, deadline).error.kind == error_kind::unimplemented);
  task.operation = operation::allreduce;
  task.dtype = dtype::int32;
  CHECK(local_host.paths[0]->run(task, deadline).error.kind == error_kind::invalid_argument);
  CHECK(solo_path().run(task, deadline).error.kind == error_kind::invalid_argument);
  task.reduce_op = reduce_op::sum;
  std::vector<error> errors(3);
  together(3, [&](std::uint32_t rank) { errors[rank] = local_host.paths[rank]->run(task, deadline).error; });
  CHECK(errors == std::vector<error>(3));
}

TEST_CASE("adasum: the member of a set of one gets its own vector, scaled") {
  std::vector<float> values{1, -2, 3}, result(3);
  work task;
  task.reduce_op = reduce_op::adasum;
  task.prescale = 0.5;
  task.postscale = 4.0;
  task.parts.push_back(
      {reinterpret_cast<std::byte*>(values.data()), reinterpret_cast<std::byte*>(result.data()), 12, {}});
  abort_token abort;
  CHECK_FALSE(solo_path().run(task, {abort, far(), "test deadline"}).error);
  CHECK(result == std::vector<float>{2, -4, 6});
}

TEST_CASE("adasum: if a member stops in any step, an abort ends the others and no buffer changes later") {
  constexpr std::uint32_t members = 4;
  const adasum_recipe recipe{dtype::float32, {3000, 5}};
  const auto phase = GENERATE(local_phase::pack, local_phase::unpack);
  const auto stopped_rank = GENERATE(0u, 3u);
  // The steps are two chunks of halves, one of products, one of halves, two of products, and the results.
  const std::uint64_t stopped_step = GENERATE(range(0, 9));

  adasum_host local_host(members);
  std::promise<void> stopped, go_on;
  local_host.paths[stopped_rank] =
      std::make_unique<shm_path>(local_host.segments[stopped_rank], stopped_rank, adasum_waiting,
                                 [&](local_phase at, std::uint64_t step) {
                                   if (at == phase && step == stopped_step) {
                                     stopped.set_value();
                                     go_on.get_future().wait();
                                   }
                                 });
  std::vector<std::vector<bytes>> inputs(members), outputs(members);
  std::vector<work> bundles;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    inputs[rank] = outputs[rank] = recipe.inputs(static_cast<std::int32_t>(rank));
    bundles.push_back(recipe.bundle(inputs[rank], outputs[rank]));
  }
  std::vector<std::future<error>> ends;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    ends.push_back(std::async(std::launch::async, [&, rank] {
      return local_host.paths[rank]->run(bundles[rank], {local_host.abort, far(), "test deadline"}).error;
    }));
  stopped.get_future().wait();
  local_host.abort.raise();
  std::vector<std::vector<bytes>> snapshots(members);
  for (std::uint32_t rank = 0; rank < members; ++rank)
    if (rank != stopped_rank) {
      const auto end = ends[rank].get();
      CHECK((end.kind == error_kind::disconnected || end.kind == error_kind::none));
      snapshots[rank] = outputs[rank];
    }
  go_on.set_value();
  const auto end = ends[stopped_rank].get();
  CHECK((end.kind == error_kind::disconnected || end.kind == error_kind::none));
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (rank != stopped_rank)
      CHECK(outputs[rank] == snapshots[rank]);
    CHECK(inputs[rank] == recipe.inputs(static_cast<std::int32_t>(rank)));
  }
}

TEST_CASE("adasum: the error of an expired deadline names its setting and the awaited member") {
  adasum_host local_host(2);
  const adasum_recipe recipe{dtype::float32, {100}};
  auto inputs = recipe.inputs(0), outputs = inputs;
  const auto soon = steady_clock::now() + std::chrono::milliseconds(5);
  const auto end = local_host.paths[0]
                       ->run(recipe.bundle(inputs, outputs), {local_host.abort, soon, "limit (X) = 1 s"})
                       .error;
  CHECK(end.kind == error_kind::timed_out);
  CHECK(end.text == "allreduce (bundle 0) waited for local member 1 until the limit (X) = 1 s passed");
}
