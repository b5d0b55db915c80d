// Helpers for scenarios of elastic jobs.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "messages/wire/membership.hpp"
#include "tests/world/elastic_job.hpp"

namespace farandole::testing {

using slots = std::vector<std::int32_t>;

/// A job without faults: hosts of one slot each, and a few virtual seconds of training.
inline elastic_options calm(std::int32_t processes) {
  elastic_options options;
  options.processes = options.limit = processes;
  options.rounds = 30;
  options.think_us = 100'000;
  options.delayed = 0;
  std::vector<host_slots> hosts;
  for (std::int32_t i = 0; i < processes; ++i)
    hosts.push_back({std::string("host-") + static_cast<char>('a' + i), 1});
  options.hosts.push_back({std::chrono::milliseconds(0), hosts});
  return options;
}

/// Adds the hosts that discovery finds from the time `at` on.
inline elastic_options with_more(elastic_options options, std::chrono::milliseconds at,
                                 std::vector<host_slots> hosts) {
  options.hosts.push_back({at, std::move(hosts)});
  return options;
}

inline bool is(const envelope& message, wire::Envelope::Body::Which kind) {
  return message.kind() == kind;
}

inline elastic_report played(const elastic_options& options, const elastic_scenario& scenario) {
  const auto report = run_elastic(options, true, scenario);
  for (const auto& line : report.transcript)
    UNSCOPED_INFO(line);
  CHECK(report.problems.empty());
  return report;
}

inline bool has_line(const elastic_report& report, const std::string& part) {
  for (const auto& line : report.transcript)
    if (line.find(part) != std::string::npos)
      return true;
  return false;
}

/// Calls `value` once, at the first message of this kind in this generation.
inline elastic_scenario once(std::uint64_t generation, wire::Envelope::Body::Which kind,
                             std::function<void(elastic_world&, std::int32_t from, std::int32_t to)> value) {
  return [=, done = false](elastic_world& world, std::int32_t from, std::int32_t to,
                           const envelope& message) mutable {
    if (!done && world.generation() == generation && is(message, kind)) {
      done = true;
      value(world, from, to);
    }
  };
}

inline constexpr auto a_request = wire::Envelope::Body::REQUESTS;
inline constexpr auto a_hello = wire::Envelope::Body::HELLO;
inline constexpr auto a_loss = wire::Envelope::Body::LOST;
inline constexpr auto a_welcome = wire::Envelope::Body::WELCOME;

/// The separate rendezvous ends in generation 1 and starts again after 1.5 s; slot 1 dies once a member has
/// resumed its generation.
inline elastic_scenario without_its_rendezvous_for_a_while() {
  auto gone = once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
    world.service().end(false);
    world.after(std::chrono::milliseconds(1500), [&world] { world.service().start(); });
  });
  auto lost = once(1, wire::Envelope::Body::RESUMED,
                   [](elastic_world& world, std::int32_t, std::int32_t) { world.kill(1); });
  return [=](elastic_world& world, std::int32_t from, std::int32_t to, const envelope& message) mutable {
    gone(world, from, to, message);
    lost(world, from, to, message);
  };
}

} // namespace farandole::testing
