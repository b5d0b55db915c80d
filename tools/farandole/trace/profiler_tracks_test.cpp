#include "tools/farandole/trace/profiler_tracks.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

constexpr auto start = made_record::start;
constexpr auto end_of_job = start + 10s;

/// Ranks 0, 1, … with the processes 100, 101, …
std::vector<event_record> ranks(std::int32_t count) {
  std::vector<event_record> records;
  for (std::int32_t rank = 0; rank < count; ++rank)
    records.push_back(made_record(rank, count).record());
  return records;
}

profiler_facts facts_at(std::chrono::nanoseconds time) {
  profiler_facts facts;
  facts.base = start;
  facts.first = time;
  facts.last = time + 1s;
  facts.events = 1;
  return facts;
}

std::optional<std::size_t> chosen(const std::string& path, const profiler_facts& facts,
                                  const std::vector<event_record>& records) {
  const auto found = record_of(path, facts, records, end_of_job);
  return found ? std::optional(*found) : std::nullopt;
}

std::string refusal(const std::string& path, const profiler_facts& facts,
                    const std::vector<event_record>& records) {
  const auto found = record_of(path, facts, records, end_of_job);
  return found ? "" : found.error().text;
}

profiler_event made(char phase, const std::string& thread, const std::string& name) {
  profiler_event event;
  event.phase = phase;
  event.process = "101";
  event.thread = thread;
  event.name = name;
  event.time = 1s;
  return event;
}

const system_axis same_axis({0, 0s, start}, start, {1, 0s, start + 10s}, start + 10s);

profiler_tracks tracks_of_rank_1() {
  const auto records = ranks(2);
  return {1, 101, same_axis, shown_times(records[1], end_of_job)};
}

} // namespace

TEST_CASE("a trace belongs to the rank whose process wrote it") {
  const auto records = ranks(3);
  auto facts = facts_at(1s);
  facts.processes = {0, 102};
  facts.rank = 0; // of a torch.distributed with other ranks
  CHECK(chosen("logs/rank-1/t.json", facts, records) == 2);
  // On another host, a process has the same number.
  auto twins = records;
  twins[0].process = 102;
  twins[0].member.host = "beta";
  facts.host = "beta";
  CHECK(chosen("t.json", facts, twins) == 0);
}

TEST_CASE("a trace without a process belongs to the rank that its path or torch.distributed names") {
  auto records = ranks(3);
  const auto facts = facts_at(1s);
  CHECK(chosen("rank-0/logs/rank_2.json", facts, records) == 2);
  CHECK(chosen("logs/rank1/t.json", facts, records) == 1);
  CHECK(refusal("logs/frank1/t.json", facts, records) ==
        "logs/frank1/t.json is left out: it does not say which rank wrote it; put the rank into the name of "
        "the file or "
        "of its folder, such as rank-3");
  CHECK(refusal("rank-7.json", facts, records) ==
        "rank-7.json is left out: there is no record of rank 7, which wrote it");
  auto distributed = facts;
  distributed.rank = 1;
  CHECK(chosen("t.json", distributed, records) == 1);
  CHECK(chosen("t.json", facts, ranks(1)) == 0);
  records[2].member.host = "beta";
  auto hosted = facts;
  hosted.host = "beta";
  CHECK(chosen("t.json", hosted, records) == 2);
  // Of two processes that had the rank, the later one.
  records.push_back(records[1]);
  records[3].origin.system += 1s;
  CHECK(chosen("rank-1.json", facts, records) == 3);
}

TEST_CASE("a trace of another run is left out") {
  const auto records = ranks(1);
  CHECK(refusal("t.json", facts_at(-2h), records) ==
        "t.json is left out: its events are not from the time of rank 0, so it is of another run");
  CHECK_FALSE(refusal("t.json", facts_at(3h), records).empty());
  CHECK(refusal("t.json", facts_at(-10s), records).empty()); // before init()
}

TEST_CASE("the events of a profiler have named threads of their own, and times on the axis") {
  auto tracks = tracks_of_rank_1();
  json_events json(start);
  tracks.begin_file("torch.profiler", start);
  tracks.add(made('M', "7", "thread 7 (python)"), json);
  auto slice = made('X', "7", "a \"b\"");
  slice.duration = 2s;
  slice.arguments = "\"x\":1";
  tracks.add(slice, json);
  auto kernel = made('X', "7", "kernel");
  kernel.process = "0"; // a device
  tracks.add(kernel, json);
  CHECK(json.take() ==
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2000,\"name\":\"thread_name\",\"args\":{\"name\":\"torch."
        "profiler: thread 7 "
        "(python)\"}},\n"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2000,\"ts\":1000000.000,\"name\":\"a "
        "\\\"b\\\"\",\"dur\":2000000.000,"
        "\"args\":{\"x\":1}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2001,\"name\":\"thread_name\",\"args\":{\"name\":\"torch."
        "profiler: 0 7\"}},\n"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2001,\"ts\":1000000.000,\"name\":\"kernel\",\"dur\":0.000}");
  CHECK(tracks.shown() == 2);
}

TEST_CASE("arrows of two files with the same numbers stay apart") {
  auto tracks = tracks_of_rank_1();
  json_events json(start);
  std::vector<std::string> texts;
  for (int file = 0; file < 2; ++file) {
    tracks.begin_file("torch.profiler", start);
    for (const char phase : {'s', 'f'}) {
      auto arrow = made(phase, "7", "fwdbwd");
      arrow.category = "fwdbwd";
      arrow.id = "5";
      tracks.add(arrow, json);
      texts.push_back(json.take());
    }
  }
  CHECK(texts[0].find("\"id\":1") != std::string::npos);
  CHECK(texts[1].find("\"id\":1,\"bp\":\"e\"") != std::string::npos);
  CHECK(texts[2].find("\"id\":2") != std::string::npos);
  CHECK(texts[3].find("\"id\":2,\"bp\":\"e\"") != std::string::npos);
}

TEST_CASE("events of other times and of too many threads are counted and left out") {
  auto tracks = tracks_of_rank_1();
  json_events json(start);
  tracks.begin_file("torch.profiler", start);
  auto early = made('X', "7", "x");
  early.time = -2h;
  tracks.add(early, json);
  CHECK(json.size() == 0);
  for (int thread = 0; thread < 5'000; ++thread)
    tracks.add(made('X', std::to_string(thread), "x"), json);
  CHECK(tracks.shown() == 4'096);
  CHECK(tracks.left_out() == 1 + 5'000 - 4'096);
}
