#include "collectives/negotiation/signature_check.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

signature asked(operation op, std::vector<std::int64_t> shape = {}) {
  signature result;
  result.operation = op;
  result.shape = std::move(shape);
  return result;
}

/// The text of the disagreement if ranks 0 and 1 request these signatures and the ranks in `joined` have
/// joined.
std::string told(const signature& zero, const signature& entry,
                 const std::vector<std::int32_t>& joined = {}) {
  const std::vector<asked_by> asked_bys{{0, &zero}, {1, &entry}};
  return disagreement("a", asked_bys, joined).text;
}

} // namespace

TEST_CASE("a scalar may be reduced, but not gathered") {
  const auto sum = asked(operation::allreduce), gather = asked(operation::allgather);
  CHECK(told(sum, sum).empty());
  CHECK_THAT(told(gather, gather), Catch::Contains("allgather of a scalar on rank 0"));
}

TEST_CASE("ranks that gather and ranks that reduce learn which of them have a sparse gradient") {
  const auto sum = asked(operation::allreduce, {4, 2}), gather = asked(operation::allgather, {1});
  CHECK_THAT(told(gather, sum), Catch::Contains("sparse on rank 0, and dense or missing on rank 1: pass"));
  CHECK_THAT(told(sum, gather), Catch::Contains("sparse on rank 1, and dense or missing on rank 0: pass"));
  CHECK_THAT(told(sum, asked(operation::broadcast, {4, 2})), Catch::EndsWith("the same operation"));
  CHECK_THAT(told(gather, asked(operation::broadcast, {1})), Catch::EndsWith("the same operation"));
}

TEST_CASE("both scale factors of a reduction must be equal") {
  const auto plain = asked(operation::allreduce);
  auto before = plain, after = plain;
  before.prescale = 0.5;
  after.postscale = 0.5;
  CHECK_THAT(told(plain, before), Catch::Contains("scale factors differ"));
  CHECK_THAT(told(plain, after), Catch::Contains("scale factors differ"));
}

TEST_CASE("all tensors of a name are in host memory, or all are in GPU memory") {
  const auto on_host = asked(operation::allgather, {2, 3});
  auto on_gpu = on_host;
  on_gpu.memory = memory_kind::device;
  CHECK(told(on_gpu, on_gpu).empty());
  CHECK_THAT(told(on_host, on_gpu),
             Catch::Contains("kinds of memory differ: rank 0 has host memory, rank 1 "
                             "has GPU memory; every rank must submit the tensor from"));
  // Another difference is reported first.
  on_gpu.shape = {2, 4};
  CHECK_THAT(told(on_host, on_gpu), Catch::Contains("shapes differ"));
}

TEST_CASE("at most six of the ranks that have joined are listed") {
  const auto gather = asked(operation::allgather, {1});
  CHECK_THAT(told(gather, gather, {2}), Catch::Contains("join: rank 2 joined"));
  CHECK_THAT(told(gather, gather, {2, 3, 4, 5, 6, 7}),
             Catch::Contains("join: ranks 2, 3, 4, 5, 6, 7 joined"));
  CHECK_THAT(told(gather, gather, {2, 3, 4, 5, 6, 7, 8}),
             Catch::Contains("join: ranks 2, 3, 4, 5, 6, 7, … joined"));
}

TEST_CASE("a product or an extremum is not prescaled while ranks have joined") {
  const auto scaled = [](reduce_op op, dtype type, double prescale) {
    auto result = asked(operation::allreduce, {4});
    result.reduce_op = op;
    result.dtype = type;
    result.prescale = prescale;
    return result;
  };
  const auto refused = Catch::Contains("with a prescale factor is not supported with join: rank 2 joined");
  for (const auto op : {reduce_op::min, reduce_op::max, reduce_op::product}) {
    const auto given = scaled(op, dtype::int32, 2.0);
    CHECK_THAT(told(given, given, {2}), refused);
    CHECK(told(given, given).empty());
    const auto negative = scaled(op, dtype::float32, -1.0);
    CHECK_THAT(told(negative, negative, {2}), refused);
    const auto plain = scaled(op, dtype::int32, 1.0);
    CHECK(told(plain, plain, {2}).empty());
  }
  const auto product = scaled(reduce_op::product, dtype::float32, 2.0);
  CHECK_THAT(told(product, product, {2}), refused);
  const auto largest = scaled(reduce_op::max, dtype::float16, 2.0);
  CHECK(told(largest, largest, {2}).empty());
  auto sum = scaled(reduce_op::sum, dtype::int32, 2.0);
  CHECK(told(sum, sum, {2}).empty());
  auto on_gpu = scaled(reduce_op::product, dtype::int32, 2.0);
  on_gpu.memory = memory_kind::device;
  CHECK_THAT(told(on_gpu, on_gpu, {2}), refused);
}
