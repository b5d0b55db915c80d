#include "tools/farandole/trace/xspace.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

std::string integer(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field_of(unsigned number, std::uint64_t value) {
  return integer(number << 3) + integer(value);
}
std::string field_of(unsigned number, const std::string& message) {
  return integer(number << 3 | 2) + integer(message.size()) + message;
}
/// An entry of a map from ids to names.
std::string named(std::uint64_t id, const std::string& name) {
  return field_of(1, id) + field_of(2, field_of(1, id) + field_of(2, name));
}

/// As TensorFlow 2.21 writes it: two events of one thread. JAX adds the process.
std::string space() {
  const auto first = field_of(1, 6) + field_of(2, 203'981'401'000) + field_of(3, 1'105'553'000);
  const auto second = field_of(1, 9) + field_of(2, 0) + field_of(3, 5'000);
  const auto sum = field_of(1, 6) + field_of(5, 17); // without a time
  const auto line = field_of(1, 77) + field_of(2, "python") + field_of(3, 10'971) + field_of(4, first) +
                    field_of(4, second) + field_of(4, sum);
  const auto host = field_of(2, "/host:CPU") + field_of(3, line) +
                    field_of(4, named(6, "EagerExecute: Sum")) + field_of(5, named(1, "process_id")) +
                    field_of(6, field_of(1, 1) + field_of(4, 3388));
  const auto environment = field_of(2, "Task Environment") + field_of(5, named(1, "profile_start_time")) +
                           field_of(5, named(2, "profile_stop_time")) +
                           field_of(6, field_of(1, 1) + field_of(3, 1'795'740'105'866'827'841)) +
                           field_of(6, field_of(1, 2) + field_of(3, 1'795'740'106'098'608'790));
  return field_of(1, host) + field_of(1, environment) + field_of(4, "vm");
}

struct read_trace {
  profiler_facts facts;
  std::vector<profiler_event> events;
};

read_trace read(const std::string& bytes) {
  read_trace result;
  result.facts = read_xspace(std::as_bytes(std::span(bytes)),
                             [&](const profiler_event& event) { result.events.push_back(event); });
  return result;
}

} // namespace

TEST_CASE("a trace of TensorFlow has the time of its start, its host and its events") {
  const auto [facts, events] = read(space());
  CHECK(facts.defect.empty());
  CHECK(facts.base == 1'795'740'105'866'827'841ns);
  CHECK(facts.host == "vm");
  CHECK(facts.processes == std::set<std::uint32_t>{3388});
  CHECK(facts.events == 2);
  CHECK(facts.unusable == 1);
  REQUIRE(events.size() == 3);
  CHECK(events[0].phase == 'M');
  CHECK(events[0].thread == "77");
  CHECK(events[0].name == "python");
  CHECK(events[1].phase == 'X');
  CHECK(events[1].process == "/host:CPU");
  CHECK(events[1].name == "EagerExecute: Sum");
  CHECK(events[1].time == 10'971ns + 203'981'401ns);
  CHECK(events[1].duration == 1'105'553ns);
  CHECK(events[2].name == "event");
  CHECK(facts.first == 10'971ns);
}

TEST_CASE("an incomplete trace of TensorFlow is a defect and no crash") {
  const auto whole = space();
  for (std::size_t size = 1; size < whole.size(); ++size)
    CHECK(read(whole.substr(0, size)).facts.events <= 2);
  CHECK(read(whole.substr(0, whole.size() - 1)).facts.defect ==
        "it is not complete, or is no trace of TensorFlow's profiler");
  CHECK(read("no protocol buffer").facts.defect ==
        "it is not complete, or is no trace of TensorFlow's profiler");
  CHECK(read("").facts.events == 0);
}

TEST_CASE("times beyond the range are not shown") {
  const auto event = field_of(1, 1) + field_of(2, UINT64_MAX) + field_of(3, 1);
  const auto line = field_of(1, 1) + field_of(4, event);
  CHECK(read(field_of(1, field_of(3, line))).facts.unusable == 1);
}
