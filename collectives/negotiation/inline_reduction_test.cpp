#include "collectives/negotiation/inline_reduction.hpp"

#include <catch2/catch.hpp>

#include <span>

using namespace farandole;

namespace {

constexpr std::size_t limit = 64;

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

requests asks(std::uint32_t id, const std::vector<float>& values) {
  requests message;
  message.ids = {id};
  message.values = {{id, bytes_of(values)}};
  return message;
}

negotiation_result ready(std::uint32_t id, std::int64_t elements, reduce_op op = reduce_op::sum) {
  ready_tensor tensor;
  tensor.id = id;
  tensor.elements = elements;
  tensor.reduce_op = op;
  negotiation_result decided;
  decided.ready = {tensor};
  return decided;
}

/// The inline reduction of the global ranks 2, 5 and 7.
inline_reduction three() {
  return {{2, 5, 7}, limit};
}

signature floats(std::vector<std::int64_t> shape = {}) {
  signature value;
  value.shape = std::move(shape);
  return value;
}

} // namespace

TEST_CASE("values that all members sent inline are reduced in rank order, without a bundle") {
  auto values = three();
  CHECK_FALSE(values.take(7, asks(4, {100, 200})));
  CHECK_FALSE(values.take(2, asks(4, {1, 2})));
  CHECK_FALSE(values.take(5, asks(4, {10, 20})));
  auto decided = ready(4, 2);
  values.complete(decided);
  CHECK(decided.ready.empty());
  REQUIRE(decided.results.size() == 1);
  CHECK(decided.results[0] == inline_value{4, bytes_of({111, 222})});
  CHECK(values.kept() == 0);
}

TEST_CASE("inline allreduces apply scales and the divisor of an average") {
  auto values = three();
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, asks(1, {3})));
  auto decided = ready(1, 1, reduce_op::average);
  decided.ready[0].prescale = 2;
  decided.ready[0].postscale = 10;
  values.complete(decided);
  REQUIRE(decided.results.size() == 1);
  CHECK(decided.results[0].bytes == bytes_of({60}));
}

TEST_CASE("inline values are prescaled before the reduction, and the result is postscaled") {
  auto values = three();
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, asks(1, {3})));
  auto decided = ready(1, 1, reduce_op::product);
  decided.ready[0].prescale = 2;
  decided.ready[0].postscale = 10;
  values.complete(decided);
  REQUIRE(decided.results.size() == 1);
  CHECK(decided.results[0].bytes == bytes_of({6 * 6 * 6 * 10}));
}

TEST_CASE("if one member's value is missing, as after a join, the tensor goes into a bundle") {
  auto values = three();
  CHECK_FALSE(values.take(2, asks(4, {1})));
  CHECK_FALSE(values.take(7, asks(4, {1})));
  auto decided = ready(4, 1);
  values.complete(decided);
  CHECK(decided.ready.size() == 1);
  CHECK(decided.results.empty());
  CHECK(values.kept() == 0);
}

TEST_CASE("the tensors of one result that are not inline keep their order") {
  auto values = three();
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, asks(4, {1})));
  auto decided = ready(3, 1);
  decided.ready.push_back(ready(4, 1).ready[0]);
  decided.ready.push_back(ready(5, 1).ready[0]);
  values.complete(decided);
  REQUIRE(decided.ready.size() == 2);
  CHECK(decided.ready[0].id == 3);
  CHECK(decided.ready[1].id == 5);
  CHECK(decided.results.size() == 1);
}

TEST_CASE("an operation that the leader does not reduce goes into a bundle, even with inline values") {
  auto values = three();
  auto decided = ready(4, 4);
  std::vector<std::byte> sent(4 * sizeof(float));
  SECTION("broadcast") {
    decided.ready[0].operation = operation::broadcast;
  }
  SECTION("Adasum") {
    decided.ready[0].reduce_op = reduce_op::adasum;
  }
  SECTION("bool") {
    decided.ready[0].dtype = dtype::boolean;
    sent.resize(4);
  }
  auto message = asks(4, {});
  message.values[0].bytes = sent;
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, message));
  values.complete(decided);
  CHECK_FALSE(decided.breach);
  CHECK(decided.ready.size() == 1);
  CHECK(decided.results.empty());
  CHECK(values.kept() == 0);
}

TEST_CASE("a value whose length differs from the tensor's is a breach of its sender") {
  auto values = three();
  CHECK_FALSE(values.take(2, asks(4, {1, 2})));
  CHECK_FALSE(values.take(5, asks(4, {1})));
  CHECK_FALSE(values.take(7, asks(4, {1, 2})));
  auto decided = ready(4, 2);
  values.complete(decided);
  CHECK(decided.broken_by == 5);
  CHECK(decided.breach.text == "it sent 4 bytes for the tensor of id 4, which has 8");
  CHECK(decided.results.empty());
}

TEST_CASE("a message whose inline values break a rule is refused, and no value of it is kept") {
  auto values = three();
  auto message = asks(4, {1});
  std::int32_t sender = 2;
  std::string part;
  SECTION("the sender is no member") {
    sender = 3;
    part = "it is not in this process set";
  }
  SECTION("a value is too large") {
    message.ids.push_back(5);
    message.values.push_back({5, std::vector<std::byte>(limit + 1)});
    part = "has 65 bytes, and at most 64 are allowed";
  }
  SECTION("a value was not requested") {
    message.values.push_back({5, bytes_of({1})});
    part = "inline tensor of id 5 and does not ask for it";
  }
  SECTION("a value comes twice") {
    message.values.push_back(message.values[0]);
    part = "the inline tensor of id 4 twice";
  }
  CHECK_THAT(values.take(sender, message).text, Catch::Contains(part));
  CHECK(values.kept() == 0);
}

TEST_CASE("a value may be as large as the limit") {
  auto values = three();
  CHECK_FALSE(values.take(2, asks(4, std::vector<float>(limit / sizeof(float), 1))));
  CHECK(values.kept() == 1);
}

TEST_CASE("a tensor without an id goes into a bundle, even with inline values") {
  auto values = three();
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, asks(0, {1})));
  auto decided = ready(0, 1);
  values.complete(decided);
  CHECK(decided.ready.size() == 1);
  CHECK(decided.results.empty());
}

TEST_CASE("a limit of 0 refuses inline values and passes messages without them") {
  inline_reduction none({0, 1}, 0);
  CHECK(none.take(0, asks(1, {1})));
  CHECK_FALSE(none.take(0, requests{{1}, {}, {}}));
}

TEST_CASE("values are dropped when their member is asked again, or their id is forgotten") {
  auto values = three();
  CHECK_FALSE(values.take(2, asks(4, {1})));
  CHECK_FALSE(values.take(5, asks(4, {1})));
  negotiation_result asked;
  asked.questions = {{2, 4}, {2, 9}};
  values.complete(asked);
  CHECK(values.kept() == 1);
  SECTION("the other member is asked as well") {
    asked.questions = {{5, 4}};
    values.complete(asked);
  }
  SECTION("the id is forgotten") {
    negotiation_result forgotten;
    forgotten.forget = {4};
    values.complete(forgotten);
  }
  CHECK(values.kept() == 0);
}

TEST_CASE("a member's later value of an id replaces its earlier one") {
  auto values = three();
  CHECK_FALSE(values.take(2, asks(4, {1})));
  for (const auto rank : {2, 5, 7})
    CHECK_FALSE(values.take(rank, asks(4, {10})));
  auto decided = ready(4, 1);
  values.complete(decided);
  REQUIRE(decided.results.size() == 1);
  CHECK(decided.results[0].bytes == bytes_of({30}));
}

TEST_CASE("only small reductions are admitted inline, up to two of the largest per message") {
  const auto rules = inline_rules::of(4096, 2);
  CHECK(rules.admit(floats(), 4096, 0));
  CHECK(rules.admit(floats(), 4096, 4096));
  CHECK_FALSE(rules.admit(floats(), 4096, 4097));
  CHECK_FALSE(rules.admit(floats(), 4, 100'000));
  CHECK_FALSE(rules.admit(floats(), 4097, 0));
  CHECK_FALSE(rules.admit(floats(), 0, 0));
  CHECK(rules.admit(floats(), 1, 0));
  auto flags = floats();
  flags.dtype = dtype::boolean;
  CHECK_FALSE(rules.admit(flags, 4, 0));
  auto gather = floats();
  gather.operation = operation::allgather;
  CHECK_FALSE(rules.admit(gather, 4, 0));
  auto adaptive = floats();
  adaptive.reduce_op = reduce_op::adasum;
  CHECK_FALSE(rules.admit(adaptive, 4, 0));
}

TEST_CASE("the inline limit falls with the number of members") {
  CHECK(inline_rules::of(4096, 16).limit_bytes == 4096);
  CHECK(inline_rules::of(4096, 32).limit_bytes == 2048);
  CHECK(inline_rules::of(1 << 20, 1).limit_bytes == inline_limit_bytes);
  CHECK_FALSE(inline_rules::of(0, 2).admit(floats(), 4, 0));
}
