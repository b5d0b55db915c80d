// Helpers for tests of relays: a relay, and the messages of the members below it.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/relay/relay.hpp"

namespace farandole::testing {

// The relay on rank 4: it has ranks 4, 5 and 6 on its host, and below it the relay on rank 8 for ranks 8 and
// 9.
inline relay made() {
  relay_rules rules;
  rules.ranks = {4, 5, 6, 8, 9};
  rules.branches = {{8, {8, 9}}};
  return relay(rules);
}

inline request full(const std::string& name, std::int64_t extent) {
  request result;
  result.name = name;
  result.signature.shape = {extent};
  return result;
}

inline requests ids(std::vector<std::uint32_t> id_list) {
  requests result;
  result.ids = std::move(id_list);
  return result;
}

inline requests in_full(const request& request) {
  requests result;
  result.full = {request};
  return result;
}

inline gathered below_8(std::vector<std::uint32_t> id_list, rank_runs ranks = {}) {
  gathered result;
  result.ids = {{std::move(id_list), std::move(ranks)}};
  return result;
}

inline void all_ask(relay& relay_node, std::uint32_t id, std::chrono::nanoseconds current_time) {
  for (auto rank : {4, 5, 6})
    relay_node.take(rank, ids({id}), current_time);
  CHECK(!relay_node.take(8, below_8({id}), current_time));
}

} // namespace farandole::testing
