// Launches on many hosts under faults; `world_test "launches*" --seed S` plays one again.
#include "tests/world/launch_job.hpp"

#include <catch2/catch.hpp>

#include "tests/world/seeds.hpp"

using namespace farandole::testing;

namespace {

/// The report as text, for INFO.
std::string text_of(const launch_report& report) {
  std::string text = std::to_string(report.workers) + " workers, " + std::to_string(report.agents) +
                     " agents, code " + std::to_string(report.code) + "\n";
  for (const auto& problem : report.problems)
    text += problem + "\n";
  for (const auto& line : report.user_messages)
    text += "launcher: " + line + "\n";
  return text;
}

/// The problems of this seed; empty if there are none.
std::string problems_of(std::uint64_t seed) {
  const auto options = launch_options::drawn(seed);
  const auto report = run_launch(options);
  return report.problems.empty() ? std::string() : text_of(report);
}

bool says(const launch_report& report, const std::string& part) {
  return std::any_of(report.user_messages.begin(), report.user_messages.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

} // namespace

TEST_CASE("launches leave nothing behind, and lose no output, under random faults") {
  const auto wrong = play_all("launches leave*", seeds(2000), problems_of);
  for (const auto& [seed, text] : wrong)
    FAIL_CHECK("seed " << seed << ": " << text);
  CHECK(wrong.empty());
}

TEST_CASE("the same seed plays the same launch") {
  for (const auto seed : seeds(20)) {
    INFO("seed " << seed);
    const auto options = launch_options::drawn(seed);
    CHECK(run_launch(options).trace == run_launch(options).trace);
  }
}

TEST_CASE("a launch without faults runs every worker once and ends with code 0") {
  launch_options options;
  options.hosts = 16;
  options.slots = 4;
  const auto report = run_launch(options);
  INFO(text_of(report));
  CHECK(report.problems.empty());
  CHECK(report.code == 0);
  CHECK(report.workers == 64);
  CHECK(report.agents == 16);
  CHECK(report.received_bytes > 0);
}

TEST_CASE("a launch of 4,096 workers on 512 hosts starts and ends") {
  launch_options options;
  options.hosts = 512;
  options.slots = 8;
  options.most_bytes = 1000;
  const auto report = run_launch(options);
  INFO(text_of(report));
  CHECK(report.problems.empty());
  CHECK(report.code == 0);
  CHECK(report.workers == 4096);
}

TEST_CASE("a lost agent ends a job of fixed size and is named") {
  for (const auto kind : {launch_fault::agent_killed, launch_fault::link_broken, launch_fault::cut_off}) {
    launch_options options;
    options.lasts = std::chrono::minutes(5);
    options.faults = {{kind, std::chrono::seconds(2), 1, std::chrono::seconds(60)}};
    const auto report = run_launch(options);
    INFO(text_of(report));
    CHECK(report.problems.empty());
    CHECK(report.faults == 1);
    CHECK(report.code == 1);
    CHECK(says(report, "host host1 was lost: "));
  }
}

TEST_CASE("an elastic job goes on without a lost host, and uses it again") {
  launch_options options;
  options.elastic = true;
  options.lasts = std::chrono::seconds(60);
  options.faults = {{launch_fault::agent_killed, std::chrono::seconds(2), 1, {}}};
  const auto report = run_launch(options);
  INFO(text_of(report));
  CHECK(report.problems.empty());
  CHECK(report.code == 0);
  CHECK(says(report, "host host1 was lost: "));
  CHECK(report.agents == 4);
  CHECK(report.workers == 8);
}

TEST_CASE("output that never stops delays no end of a job") {
  launch_options options;
  options.endless = 1;
  options.read_bytes = 10'000;
  options.faults = {{launch_fault::interrupted, std::chrono::seconds(3), 0, {}}};
  const auto report = run_launch(options);
  INFO(text_of(report));
  CHECK(report.problems.empty());
  CHECK(report.code == 128 + 2);
}

TEST_CASE("a request to start a process that arrives twice starts it once") {
  launch_options options;
  options.faults = {{launch_fault::start_repeated, std::chrono::milliseconds(1500), 0, {}}};
  const auto report = run_launch(options);
  INFO(text_of(report));
  CHECK(report.problems.empty());
  CHECK(report.faults == 1);
  CHECK(report.code == 0);
  CHECK(report.workers == 6);
}

TEST_CASE("a launch starts if each host has an address that the others reach, and only then") {
  std::size_t started = 0, apart = 0;
  for (const auto seed : seeds(200)) {
    launch_options options;
    options.seed = seed;
    options.hosts = static_cast<std::int32_t>(2 + seed % 4);
    options.networks = 2;
    options.dead = 4;
    options.blocked = 20;
    const auto report = run_launch(options);
    INFO("seed " << seed << ": " << text_of(report));
    CHECK(report.problems.empty());
    CHECK(report.code == (report.apart ? 1 : 0));
    if (report.apart)
      CHECK(says(report, "cannot reach it: cannot connect: No route to host"));
    ++(report.apart ? apart : started);
  }
  CHECK((seeds(200).size() < 200 || (started > 20 && apart > 20)));
}
