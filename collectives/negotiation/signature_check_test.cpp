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
