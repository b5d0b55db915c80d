#include "tools/farandole/trace/chrome_trace.hpp"

#include <catch2/catch.hpp>

#include <sstream>
#include <vector>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

struct read_trace {
  profiler_facts facts;
  std::vector<profiler_event> events;
};

read_trace read(const std::string& json, const chrome_trace_limits& limits = {}) {
  read_trace result;
  std::stringbuf text(json);
  result.facts = read_chrome_trace(
      text, [&](const profiler_event& event) { result.events.push_back(event); }, limits);
  return result;
}

std::string with_events(const std::string& events) {
  return R"({"baseTimeNanoseconds":1790857026000000000,"traceEvents":[)" + events + "]}";
}

// As PyTorch 2.15 writes it, with fewer events.
constexpr const char* torch_trace = R"json(
 {
    "schemaVersion": 1,
    "deviceProperties": [],
      "trace_id": "2A8824F6802B4661940F2BB9AD63FDA7",
      "distributedInfo": {"backend": "gloo", "rank": 3, "world_size": 4, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]},
      "host_name": "vm",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [
  {
    "ph": "M", "name": "thread_name", "ts": 4882130859043.040, "pid": 27347, "tid": 27347,
    "args": { "name": "thread 27347 (python)" }
  },
  {
    "ph": "X", "cat": "user_annotation", "name": "anchor", "pid": 27347, "tid": 27347, "ts": 4882090070911.885,
    "dur": 23909.982, "args": {"External id": 1, "Input Dims": [[2, 3], []], "Shape": {"a": "b"}, "ok": true}
  },
  { "ph": "s", "id": 5, "pid": 27347, "tid": 27347, "ts": 4882090070912.000, "cat": "fwdbwd", "name": "fwdbwd" },
  { "ph": "I", "name": "[memory]", "pid": 27347, "tid": 27347, "ts": 4882090070913.000 },
  { "ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 4882131155906.764 }
  ],"traceName": "/tmp/t.json" })json";

} // namespace

TEST_CASE("a trace of torch.profiler has its base, its rank, its process and its events") {
  const auto [facts, events] = read(torch_trace);
  CHECK(facts.defect.empty());
  CHECK(facts.base == 1790857026000000000ns);
  CHECK(facts.rank == 3);
  CHECK(facts.host == "vm");
  CHECK(facts.processes == std::set<std::uint32_t>{27347});
  CHECK(facts.events == 3);
  CHECK(facts.first == 4882090070911885ns);
  CHECK(facts.last == 4882090094821867ns);
  REQUIRE(events.size() == 4);
  CHECK(events[0].phase == 'M');
  CHECK(events[0].name == "thread 27347 (python)");
  CHECK(events[1].name == "anchor");
  CHECK(events[1].category == "user_annotation");
  CHECK(events[1].duration == 23909982ns);
  CHECK(events[1].arguments == R"("External id":1,"Input Dims":[[2,3],[]],"Shape":{"a":"b"},"ok":true)");
  CHECK(events[2].id == "5");
  CHECK(events[3].phase == 'i');
  CHECK(facts.unusable == 1); // the profiler's own mark
}

TEST_CASE("times are exact to the nanosecond, and without a base they count from 1970") {
  const auto event = [](const std::string& time) {
    return R"({"ph":"X","name":"x","pid":1,"tid":1,"ts":)" + time + "}";
  };
  CHECK(read(with_events(event("12"))).events.at(0).time == 12us);
  CHECK(read(with_events(event("12.5"))).events.at(0).time == 12500ns);
  CHECK(read(with_events(event("-0.25"))).events.at(0).time == -250ns);
  CHECK(read(with_events(event("1.5e3"))).events.at(0).time == 1500us);
  CHECK(read(with_events(event("1795739116070406.9139"))).events.at(0).time == 1795739116070406913ns);
  CHECK(read(R"({"traceEvents":[)" + event("1795739116070406.913") + "]}").facts.base == 0ns);
  CHECK_FALSE(read(R"({"traceEvents":[)" + event("12") + "]}").facts.base);
  CHECK(read(with_events(event("1e30"))).facts.unusable == 1);
  CHECK(read(with_events(event("\"late\""))).facts.unusable == 1);
  CHECK_FALSE(read(R"({"baseTimeNanoseconds":-5,"traceEvents":[)" + event("12") + "]}").facts.base);
}

TEST_CASE("events before the defect of a file are read") {
  const std::string text = torch_trace;
  const auto truncated = read(text.substr(0, text.find("\"I\"")));
  CHECK(truncated.facts.events == 2);
  CHECK(truncated.facts.defect.starts_with("it ends in the middle, after "));
  const auto garbage = read(text.substr(0, text.find("{ \"ph\": \"I\"")) + "\x01\x02");
  CHECK(garbage.facts.events == 2);
  CHECK(garbage.facts.defect.starts_with("it is no JSON at byte "));
  CHECK(read("").facts.defect.starts_with("it ends in the middle, after 0 bytes"));
  CHECK(read("\x1f\x8b garbage").facts.defect == "it is no JSON at byte 1");
  CHECK(read(std::string(1000, '[')).facts.defect == "it is nested deeper than 256 levels");
}

TEST_CASE("a text beyond a limit is not read to its end") {
  std::string events;
  for (int i = 0; i < 10'000; ++i)
    events += R"({"ph":"X","name":"x","pid":1,"tid":1,"ts":1},)";
  const auto large = read(with_events(events), {100'000, 100'000});
  CHECK(large.facts.defect.starts_with("it is too large; what follows its first 131072 bytes"));
  CHECK(large.facts.events > 1'000);
  CHECK(large.facts.events < 10'000);
  const auto value = read(R"({"traceName":")" + std::string(300'000, 'a'), {1'000'000, 100'000});
  CHECK(value.facts.defect.starts_with("it is too large"));
  // Values below the limit count from the end of the last one.
  CHECK(read(with_events(events.substr(0, events.size() - 1)), {1'000'000, 100'000}).facts.events == 10'000);
}

TEST_CASE("long names are cut, and long arguments left out") {
  const auto [facts, events] = read(with_events(R"({"ph":"X","name":")" + std::string(4'095, 'a') + "\u00e9" +
                                                R"(","pid":1,"tid":1,"ts":1,)" + R"("args":{"a":")" +
                                                std::string(20'000, 'b') + R"(","c":[1]}})"));
  REQUIRE(events.size() == 1);
  CHECK(events[0].name == std::string(4'095, 'a'));
  CHECK(events[0].arguments.empty());
}

TEST_CASE("what is no event of a profiler is not shown") {
  CHECK(read(R"([{"ph":"X","ts":1}])").facts.events == 0); // Horovod's timeline
  CHECK(read(R"({"metadata":{"ranks":2,"dropped_events":0},"traceEvents":[]})").facts.merged);
  CHECK(read(with_events(R"({"ph":"P","ts":1},{"name":"x"},7,[{}])")).facts.unusable == 2);
}
