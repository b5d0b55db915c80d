#include "messages/wire/gathered.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/membership.hpp"

using namespace farandole;

namespace {

constexpr address somewhere{4, 2, 8};

gathered sample() {
  requests rest;
  rest.join = true;
  rest.withdraw = {"gone"};
  rest.left = {{9, 4}};
  request request;
  request.name = "weights";
  request.signature.shape = {3, 4};
  gathered value;
  value.ids = {{{1, 70000, 2}, {}}, {{3}, {{8, 2}, {11, 1}}}};
  value.full = {{request, {}}, {request, {{9, 1}}}};
  value.full[1].asked_request.no_fast_path = true;
  value.apart = {{9, rest}, {8, {}}};
  value.buckets = {4, 70001};
  return value;
}

expected<gathered> travelled(const gathered& value) {
  auto message = envelope::parse(encode(somewhere, value).bytes());
  REQUIRE(message);
  CHECK(message->source() == 8);
  CHECK(message->target() == -1);
  return decode_gathered(*message);
}

std::string complaint(const rank_runs& runs) {
  gathered value;
  value.ids = {{{1}, runs}};
  const auto received = travelled(value);
  return received ? "" : received.error().text;
}

} // namespace

TEST_CASE("gathered requests arrive as they were sent") {
  CHECK(*travelled(sample()) == sample());
  CHECK(*travelled({}) == gathered{});
  CHECK(!decode_requests(encode(somewhere, sample())));
  CHECK(!decode_gathered(encode(somewhere, requests{})));
}

TEST_CASE("runs of ranks ascend, do not touch and stay in range") {
  CHECK(complaint({{0, 1}, {2, 5}, {member_limit - 1, 1}}).empty());
  for (const rank_runs& wrong :
       {rank_runs{{-1, 1}}, rank_runs{{0, 0}}, rank_runs{{0, 1}, {1, 1}}, rank_runs{{5, 1}, {3, 1}},
        rank_runs{{0, 4}, {2, 1}}, rank_runs{{member_limit - 1, 2}}, rank_runs{{1, 0xffffffff}}})
    CHECK(!complaint(wrong).empty());
}

TEST_CASE("gathered requests are checked as closely as single ones") {
  auto value = sample();
  value.ids[0].ids[1] = 0;
  CHECK(!travelled(value));
  value = sample();
  value.full[0].asked_request.name = "";
  CHECK(!travelled(value));
  value = sample();
  value.apart[0].rank = -1;
  CHECK(!travelled(value));
  value = sample();
  value.apart[1].batch.ids = {0};
  CHECK(!travelled(value));
  value = sample();
  value.buckets[1] = 0;
  CHECK(!travelled(value));
  value.buckets.assign(bucket_limit + 1, 7);
  CHECK(!travelled(value));
}
