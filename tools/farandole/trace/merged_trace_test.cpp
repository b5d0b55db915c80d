#include "tools/farandole/trace/merged_trace.hpp"

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;

namespace {

/// The objects of the trace. JSON is YAML.
std::vector<YAML::Node> objects_in(const merged_trace& trace) {
  const auto root = YAML::Load(trace.json);
  std::vector<YAML::Node> objects;
  for (const auto& object : root["traceEvents"])
    objects.push_back(object);
  return objects;
}

std::vector<YAML::Node> named(const merged_trace& trace, const std::string& name,
                              const std::string& phase = "X") {
  std::vector<YAML::Node> found;
  for (const auto& object : objects_in(trace))
    if (object["ph"].as<std::string>() == phase && object["name"] && object["name"].as<std::string>() == name)
      found.push_back(object);
  return found;
}

event made_event(std::uint64_t ms, event_kind kind, std::uint32_t name, std::uint64_t first = 0,
                 std::uint64_t second = 0, std::uint8_t detail = 0) {
  return {ms * 1'000'000, name, 0, kind, detail, first, second};
}

/// A call that goes through the leader: submitted and awaited by thread 0, moved by thread 2 from 3 to 8 ms after it.
event_record negotiated(std::int32_t rank, std::uint64_t ms) {
  auto record = made_record(rank, 2).record();
  record.names = {"", "x", "shm"};
  record.threads[0].events = {made_event(ms, event_kind::submitted, 1, 16),
                              made_event(ms + 1, event_kind::wait_begin, 1),
                              made_event(ms + 9, event_kind::wait_end, 1)};
  record.threads[1].events.push_back(made_event(ms + 2, event_kind::scheduled, 1, 5));
  record.threads[2].events = {made_event(ms + 3, event_kind::path_begin, 2, 5, 16),
                              made_event(ms + 8, event_kind::path_end, 2, 5, 1000)};
  return record;
}

/// A round of the fast path, complete at 20 ms.
event_record fast(std::int32_t rank, std::uint64_t published_ms) {
  auto record = made_record(rank, 2).record();
  record.names = {"", "y"};
  record.threads[0].events = {made_event(published_ms, event_kind::published, 1, 8, 3),
                              made_event(20, event_kind::settled, 1, 4)};
  return record;
}

} // namespace

TEST_CASE("a trace has a process for each rank and a named thread for each thread") {
  const auto trace = merge_records({negotiated(1, 10), negotiated(0, 10)}, {});
  CHECK(trace.ranks == 2);
  CHECK(trace.events == 14); // with the beginning of the generation
  std::vector<std::string> processes, threads;
  for (const auto& object : objects_in(trace)) {
    if (object["name"] && object["name"].as<std::string>() == "process_name")
      processes.push_back(object["args"]["name"].as<std::string>());
    if (object["name"] && object["name"].as<std::string>() == "thread_name" && object["pid"].as<int>() == 0)
      threads.push_back(object["args"]["name"].as<std::string>());
  }
  CHECK(processes == std::vector<std::string>{"rank 0 on alpha", "rank 1 on alpha"});
  CHECK(threads == std::vector<std::string>{"caller", "loop", "lane", "steps", "generations"});
}

TEST_CASE("a call through the leader shows its wait, its transfer, and an arrow between them") {
  const auto trace = merge_records({negotiated(0, 10), negotiated(1, 11)}, {});
  const auto waits = named(trace, "wait for x");
  REQUIRE(waits.size() == 2);
  CHECK(waits[0]["ts"].as<double>() == 11'000);
  CHECK(waits[0]["dur"].as<double>() == 8'000);
  const auto transfers = named(trace, "shm allreduce");
  REQUIRE(transfers.size() == 2);
  CHECK(transfers[0]["ts"].as<double>() == 13'000);
  CHECK(transfers[0]["dur"].as<double>() == 5'000);
  CHECK(transfers[0]["args"]["bytes"].as<int>() == 16);
  CHECK(transfers[0]["args"]["nanoseconds spent waiting for other ranks"].as<int>() == 1000);
  CHECK(named(trace, "transfer", "s").size() == 2);
  const auto ends = named(trace, "transfer", "f");
  REQUIRE(ends.size() == 2);
  CHECK(ends[0]["ts"].as<double>() == 13'000);
  CHECK(ends[0]["tid"].as<int>() == 1002); // 0 has a meaning for Perfetto
  CHECK(named(trace, "bytes", "C").size() == 2);
  CHECK(named(trace, "blocked ms", "C").at(0)["args"]["value"].as<double>() == 8);
}

TEST_CASE("a round of the fast path has an arrow from the last rank to the others") {
  const auto trace = merge_records({fast(0, 10), fast(1, 18)}, {});
  const auto calls = named(trace, "y");
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["dur"].as<double>() == 10'000);
  CHECK(calls[1]["dur"].as<double>() == 2'000);
  CHECK(calls[0]["args"]["round"].as<int>() == 3);
  const auto begins = named(trace, "last rank", "s"), ends = named(trace, "last rank", "f");
  REQUIRE(begins.size() == 1);
  CHECK(begins[0]["pid"].as<int>() == 1);
  CHECK(begins[0]["ts"].as<double>() == 18'000);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0]["pid"].as<int>() == 0);
}

TEST_CASE("calls and transfers that are not complete end with the record") {
  auto record = negotiated(0, 10);
  record.threads[0].events.pop_back();
  record.threads[2].events.pop_back();
  const auto trace = merge_records({record}, {});
  REQUIRE(named(trace, "wait for x (not complete)").size() == 1);
  CHECK(named(trace, "wait for x (not complete)")[0]["dur"].as<double>() == 2'000);
  CHECK(named(trace, "shm allreduce").size() == 1);
}

TEST_CASE("steps and generations have tracks of their own") {
  auto record = negotiated(0, 10);
  record.threads[0].events.insert(record.threads[0].events.begin(), made_event(5, event_kind::step, 0, 1));
  record.threads[0].events.push_back(made_event(25, event_kind::step, 0, 2));
  const auto trace = merge_records({record}, {});
  REQUIRE(named(trace, "step 2").size() == 1);
  CHECK(named(trace, "step 2")[0]["dur"].as<double>() == 20'000);
  CHECK(named(trace, "generation 1").size() == 1);
}

TEST_CASE("the events of another host are placed by the measured difference of the clocks") {
  auto there = negotiated(1, 10);
  there.member.host = "beta";
  there.origin.system += std::chrono::seconds(100); // its clock is ahead
  const auto trace = merge_records({negotiated(0, 10), there}, {});
  CHECK(trace.reference == "alpha");
  CHECK(trace.clocks.at("beta").offset == std::chrono::seconds(100));
  CHECK(trace.clocks.at("beta").error == std::chrono::nanoseconds(std::chrono::milliseconds(5)));
  const auto transfers = named(trace, "shm allreduce");
  REQUIRE(transfers.size() == 2);
  CHECK(transfers[0]["ts"].as<double>() == transfers[1]["ts"].as<double>());
}

TEST_CASE("names with quotes and other characters leave the trace valid") {
  auto record = negotiated(0, 10);
  record.names[1] = "a \"b\"\n\xff";
  CHECK(objects_in(merge_records({record}, {})).size() > 5);
  auto absent = made_record(-1, 0).record();
  CHECK(merge_records({absent}, {}).ranks == 0);
}
