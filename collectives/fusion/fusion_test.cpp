#include "collectives/fusion/fusion.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

ready_tensor tensor(std::uint32_t id, std::size_t bytes, dtype type = dtype::float32) {
  ready_tensor ready;
  ready.id = id;
  ready.dtype = type;
  ready.bytes = bytes;
  ready.elements = static_cast<std::int64_t>(bytes / size_of(type));
  return ready;
}

fusion_options exactly(std::size_t threshold) {
  fusion_options options;
  options.threshold_bytes = threshold;
  options.homogeneous = false;
  return options;
}

/// The ids of each bundle's entries.
std::vector<std::vector<std::uint32_t>> ids(const std::vector<bundle>& bundles) {
  std::vector<std::vector<std::uint32_t>> result;
  for (const auto& bundle : bundles) {
    result.emplace_back();
    for (const auto& entry : bundle.entries)
      result.back().push_back(entry.id);
  }
  return result;
}

using bundles_of = std::vector<std::vector<std::uint32_t>>;

} // namespace

TEST_CASE("on homogeneous hosts the threshold is rounded up to local size times 512, and 0 stays 0") {
  fusion_options options;
  options.threshold_bytes = 1000;
  options.local_size = 3;
  CHECK(effective_threshold(options) == 1536);
  options.threshold_bytes = 1536;
  CHECK(effective_threshold(options) == 1536);
  options.homogeneous = false;
  options.threshold_bytes = 1000;
  CHECK(effective_threshold(options) == 1000);
  options.homogeneous = true;
  options.threshold_bytes = 0;
  CHECK(effective_threshold(options) == 0);
}

TEST_CASE("tensors that are ready together share a bundle, and sequence numbers count up from 0") {
  fusion plan(exactly(1000));
  plan.push(std::vector{tensor(1, 8), tensor(2, 8, dtype::float64), tensor(3, 8)}, 0ns);
  const auto bundles = plan.take(0ns);
  CHECK(ids(bundles) == bundles_of{{1, 3}, {2}});
  REQUIRE(bundles.size() == 2);
  CHECK(bundles[0].sequence == 0);
  CHECK(bundles[1].sequence == 1);
  CHECK(bundles[1].dtype == dtype::float64);
  CHECK(plan.outstanding() == 2);
}

TEST_CASE("while two bundles are outstanding, ready tensors wait and then share one bundle") {
  fusion plan(exactly(1000));
  for (std::uint32_t id = 1; id <= 6; ++id) {
    plan.push(std::vector{tensor(id, 8)}, 0ns);
    CHECK(plan.take(0ns).size() == (id <= 2 ? 1 : 0));
  }
  plan.finished(0);
  CHECK(ids(plan.take(0ns)) == bundles_of{{3, 4, 5, 6}});
  plan.finished(1);
  plan.finished(2);
  CHECK(plan.outstanding() == 0);
  CHECK(plan.take(0ns).empty());
}

TEST_CASE("a full bundle goes out even while others are outstanding") {
  fusion plan(exactly(16));
  std::vector<ready_tensor> many;
  for (std::uint32_t id = 1; id <= 9; ++id)
    many.push_back(tensor(id, 8));
  plan.push(many, 0ns);
  // Tensor 9 could still be joined by others, and more than two bundles are outstanding already.
  CHECK(ids(plan.take(0ns)) == bundles_of{{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  CHECK(plan.waiting() == 1);
}

TEST_CASE("operations that cannot be fused go out at once, one tensor to a bundle") {
  fusion plan(exactly(1000));
  std::vector<ready_tensor> many;
  for (std::uint32_t id = 1; id <= 4; ++id) {
    many.push_back(tensor(id, 8));
    many.back().operation = id < 4 ? operation::broadcast : operation::barrier;
    many.back().root = 1;
  }
  plan.push(many, 0ns);
  const auto bundles = plan.take(0ns);
  CHECK(ids(bundles) == bundles_of{{1}, {2}, {3}, {4}});
  CHECK(bundles[0].root == 1);
}

TEST_CASE("without a threshold, or above it, each tensor gets its own bundle") {
  fusion none(exactly(0));
  none.push(std::vector{tensor(1, 8), tensor(2, 8)}, 0ns);
  CHECK(ids(none.take(0ns)) == bundles_of{{1}, {2}});
  fusion plan(exactly(16));
  plan.push(std::vector{tensor(1, 8), tensor(2, 800), tensor(3, 8)}, 0ns);
  CHECK(ids(plan.take(0ns)) == bundles_of{{1}, {2}});
  plan.finished(0);
  CHECK(ids(plan.take(0ns)) == bundles_of{{3}});
}

TEST_CASE("reductions share a bundle only if op and scales are equal; gathers need only an equal dtype") {
  auto other_op = tensor(2, 8);
  other_op.reduce_op = reduce_op::min;
  auto other_scale = tensor(3, 8);
  other_scale.postscale = 0.5;
  fusion plan(exactly(1000));
  plan.push(std::vector{tensor(1, 8), other_op, other_scale, tensor(4, 8)}, 0ns);
  CHECK(ids(plan.flush()) == bundles_of{{1, 4}, {2}, {3}});

  auto rows = tensor(5, 8), more_rows = tensor(6, 8), bytes = tensor(7, 8, dtype::int8);
  for (auto* ready : {&rows, &more_rows, &bytes}) {
    ready->operation = operation::allgather;
    ready->details = std::make_shared<const ready_details>(ready_details{{}, {1, 1}, 1});
  }
  more_rows.reduce_op = reduce_op::average;
  plan.push(std::vector{rows, tensor(8, 8), more_rows, bytes}, 0ns);
  const auto bundles = plan.flush();
  CHECK(ids(bundles) == bundles_of{{5, 6}, {8}, {7}});
  CHECK(bundles[0].entries[0].first_dims == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("tensors share a bundle only if each member has them in one memory") {
  auto on_first = tensor(2, 8), also_on_first = tensor(3, 8), on_second = tensor(4, 8);
  for (auto* ready : {&on_first, &also_on_first, &on_second})
    ready->memory = memory_kind::device;
  on_second.details = std::make_shared<const ready_details>(ready_details{{}, {}, 0, {0, 1}});
  fusion plan(exactly(1000));
  plan.push(std::vector{tensor(1, 8), on_first, on_second, also_on_first, tensor(5, 8)}, 0ns);
  const auto bundles = plan.flush();
  CHECK(ids(bundles) == bundles_of{{1, 5}, {2, 3}, {4}});
  CHECK(bundles[0].memory == memory_kind::host);
  CHECK(bundles[1].memory == memory_kind::device);
  CHECK(bundles[1].devices.empty());
  CHECK(bundles[2].devices == std::vector<std::uint8_t>{0, 1});
}

TEST_CASE("reduce-scatters share bundles only with reduce-scatters, and each alltoall goes alone") {
  const auto as = [](std::uint32_t id, operation op) {
    auto ready = tensor(id, 8);
    ready.operation = op;
    return ready;
  };
  auto averaged = as(4, operation::reducescatter), scaled = as(5, operation::reducescatter);
  averaged.reduce_op = reduce_op::average;
  scaled.prescale = 2;
  fusion plan(exactly(1000));
  plan.push(std::vector{as(1, operation::reducescatter), as(2, operation::allreduce),
                        as(3, operation::reducescatter), averaged, scaled, as(6, operation::alltoall),
                        as(7, operation::alltoall), as(8, operation::reducescatter)},
            0ns);
  CHECK(ids(plan.flush()) == bundles_of{{1, 3, 8}, {2}, {4}, {5}, {6}, {7}});
}

TEST_CASE("tensors that do not match are passed over within the threshold only, and keep their place") {
  fusion plan(exactly(40));
  plan.push(std::vector{tensor(1, 8), tensor(2, 16, dtype::float64), tensor(3, 8),
                        tensor(4, 8, dtype::float64), tensor(5, 8, dtype::float64), tensor(6, 8)},
            0ns);
  // Tensors 1 and 3, past 2 and 4, make forty bytes: 5 cannot be passed over, so 6 is not reached.
  CHECK(ids(plan.flush()) == bundles_of{{1, 3}, {2, 4, 5}, {6}});
}

TEST_CASE("with groups_alone, groups are fused apart from other tensors") {
  auto options = exactly(1000);
  auto a = tensor(1, 8), b = tensor(2, 8), c = tensor(3, 8), d = tensor(4, 8);
  a.group = c.group = 7;
  const std::vector all{a, b, c, d};
  fusion mixed(options);
  mixed.push(all, 0ns);
  CHECK(ids(mixed.flush()) == bundles_of{{1, 2, 3, 4}});
  options.groups_alone = true;
  fusion apart(options);
  apart.push(all, 0ns);
  CHECK(ids(apart.flush()) == bundles_of{{1, 3}, {2, 4}});
}

TEST_CASE("the cycle time delays a partial bundle until its oldest tensor has waited that long") {
  auto options = exactly(16);
  options.cycle_time = 5ms;
  fusion plan(options);
  CHECK(!plan.wake_at());
  plan.push(std::vector{tensor(1, 8)}, 10ms);
  CHECK(plan.take(14ms).empty());
  CHECK(plan.wake_at() == 15ms);
  CHECK(ids(plan.take(15ms)) == bundles_of{{1}});
  plan.push(std::vector{tensor(2, 8), tensor(3, 8), tensor(4, 8)}, 20ms);
  CHECK(ids(plan.take(20ms)) == bundles_of{{2, 3}});
  CHECK(plan.waiting() == 1);
  CHECK(!plan.wake_at()); // two bundles are outstanding: one has to finish first
  plan.finished(0);
  CHECK(plan.wake_at() == 25ms);
}

TEST_CASE("holds_any tells whether any of the given ids is waiting") {
  auto options = exactly(1000);
  options.outstanding = 0;
  fusion plan(options);
  const auto named = by_name(tensor(7, 8), "x");
  plan.push(std::vector{tensor(3, 8), named}, 0ns);
  CHECK(plan.take(0ns).empty());
  CHECK(plan.holds_any(std::vector<std::uint32_t>{9, 3}));
  CHECK(!plan.holds_any(std::vector<std::uint32_t>{9, 0}));
  const auto bundles = plan.flush();
  CHECK(bundles.at(0).entries.at(1).name == "x");
  CHECK(!plan.holds_any(std::vector<std::uint32_t>{9, 3}));
}

TEST_CASE("a bundle has the operation, dtype, scales and root that its tensors were requested with") {
  auto reduced = tensor(1, 16, dtype::float64);
  reduced.operation = operation::reducescatter;
  reduced.reduce_op = reduce_op::max;
  reduced.prescale = 0.5;
  reduced.postscale = 4.0;
  auto sent = tensor(2, 8);
  sent.operation = operation::broadcast;
  sent.root = 3;
  auto gathered = tensor(3, 24);
  gathered.operation = operation::allgather;
  gathered.details = std::make_shared<const ready_details>(ready_details{{}, {1, 2}, 2});
  fusion plan(exactly(0));
  plan.push(std::vector{reduced, sent, gathered}, 0ns);
  const auto bundles = plan.take(0ns);
  REQUIRE(bundles.size() == 3);
  CHECK(bundles[0].operation == operation::reducescatter);
  CHECK(bundles[0].dtype == dtype::float64);
  CHECK(bundles[0].reduce_op == reduce_op::max);
  CHECK(bundles[0].prescale == 0.5);
  CHECK(bundles[0].postscale == 4.0);
  CHECK(bundles[0].entries.at(0).elements == 2);
  CHECK(bundles[1].operation == operation::broadcast);
  CHECK(bundles[1].root == 3);
  CHECK(bundles[2].entries.at(0).first_dims == std::vector<std::int64_t>{1, 2});
  CHECK(bundles[2].entries.at(0).row_elements == 2);
}

TEST_CASE("no bundle has more first dimensions than a message holds, at any threshold") {
  fusion plan(exactly(1000));
  std::vector<ready_tensor> all;
  for (std::uint32_t id : {1, 2, 3, 4}) {
    all.push_back(tensor(id, 4));
    all.back().operation = operation::allgather;
    const std::vector<std::int64_t> rows((std::size_t{1} << 19) / 3, 0); // a third of the most words
    all.back().details = std::make_shared<const ready_details>(ready_details{{}, rows, 1});
  }
  plan.push(all, 0ns);
  CHECK(ids(plan.take(0ns)) == bundles_of{{1, 2}, {3, 4}});
}

TEST_CASE("the threshold is rounded up even if it exceeds a multiple by one byte") {
  fusion_options options;
  options.threshold_bytes = 1537;
  options.local_size = 3;
  CHECK(effective_threshold(options) == 3072);
}

TEST_CASE("a tensor as large as the threshold fills a bundle, and tensors that add up to it fit") {
  auto options = exactly(24);
  options.outstanding = 0;
  fusion alone(options);
  alone.push(std::vector{tensor(1, 24)}, 0ns);
  CHECK(ids(alone.take(0ns)) == bundles_of{{1}});
  // Tensor 2 is passed over: tensors 1 and 2 make 24 bytes.
  fusion plan(exactly(24));
  plan.push(std::vector{tensor(1, 8), tensor(2, 16, dtype::float64), tensor(3, 16)}, 0ns);
  CHECK(ids(plan.flush()) == bundles_of{{1, 3}, {2}});
}

TEST_CASE("finishing a bundle that never went out is ignored") {
  fusion plan(exactly(1000));
  plan.finished(0);
  plan.finished(7);
  CHECK(plan.outstanding() == 0);
}

TEST_CASE("without a cycle time there is no wake-up time") {
  fusion plan(exactly(1000));
  plan.push(std::vector{tensor(1, 8)}, 5ms);
  CHECK_FALSE(plan.wake_at());
}

TEST_CASE("each bundle states why it was started") {
  fusion plan(exactly(16));
  plan.push(std::vector{tensor(1, 8), tensor(2, 8), tensor(3, 8)}, 0ns);
  REQUIRE(ids(plan.take(0ns)) == bundles_of{{1, 2}, {3}});
  CHECK(std::vector(plan.triggers().begin(), plan.triggers().end()) ==
        std::vector{cut_trigger::full, cut_trigger::lane_idle});
  plan.push(std::vector{tensor(4, 8)}, 0ns);
  REQUIRE(plan.take(0ns).empty()); // two bundles are in progress
  CHECK(plan.triggers().empty());
  REQUIRE(ids(plan.flush()) == bundles_of{{4}});
  CHECK(std::vector(plan.triggers().begin(), plan.triggers().end()) == std::vector{cut_trigger::flushed});
}
