// Helpers for tests of a leader with relays: the leader, and the messages of relays and members to it.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/negotiation/negotiation.hpp"

namespace farandole::testing {

// The leader on rank 0: rank 1 is a direct member, and ranks 2 (for 2 and 3) and 4 (for 4 … 99) are relays.
inline negotiation made(const fast_path_options& fast_path = {}, std::size_t buckets = 3) {
  negotiation_options options;
  options.fast_path = fast_path;
  options.buckets = buckets;
  options.members.resize(100);
  std::iota(options.members.begin(), options.members.end(), 0);
  std::vector<std::int32_t> many(options.members.begin() + 4, options.members.end());
  options.branches = {{2, {2, 3}}, {4, many}};
  return negotiation(options);
}

inline request ask(std::string name, std::int64_t elements, operation op = operation::allreduce) {
  request result;
  result.name = std::move(name);
  result.signature.operation = op;
  result.signature.shape = {elements};
  return result;
}

inline requests alone(const request& request) {
  requests result;
  result.full = {request};
  return result;
}

inline requests alone(std::uint32_t id) {
  requests result;
  result.ids = {id};
  return result;
}

inline gathered together(const request& request, rank_runs ranks = {}) {
  gathered result;
  result.full = {{request, std::move(ranks)}};
  return result;
}

inline gathered together(std::uint32_t id, rank_runs ranks = {}) {
  gathered result;
  result.ids = {{{id}, std::move(ranks)}};
  return result;
}

// All members request `value`; returns the result of the last request.
template <class Value>
negotiation_result all_ask(negotiation& leader, const Value& value) {
  CHECK(leader.receive(0, alone(value), std::chrono::nanoseconds(0)).empty());
  CHECK(leader.receive(4, together(value), std::chrono::nanoseconds(0)).empty());
  CHECK(leader.receive(1, alone(value), std::chrono::nanoseconds(0)).empty());
  return leader.receive(2, together(value), std::chrono::nanoseconds(0));
}

} // namespace farandole::testing
