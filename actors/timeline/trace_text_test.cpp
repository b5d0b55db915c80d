#include "actors/timeline/trace_text.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("each record has the fields of Horovod's timeline, in its order", "[timeline]") {
  trace_text text;
  const auto record = [&](auto write) {
    write();
    return text.take();
  };
  CHECK(record([&] { text.head(1700000000000001); }) ==
        R"({"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": )"
        "1700000000000001}},\n"
        R"({"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}})");
  CHECK(record([&] { text.process(3, "allreduce.a"); }) ==
        R"({"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "allreduce.a"}},)"
        "\n"
        R"({"name": "process_sort_index", "ph": "M", "pid": 3, "args": {"sort_index": 3}})");
  CHECK(record([&] { text.begin("ALLREDUCE", 5, 3); }) ==
        R"({"ph": "B", "name": "ALLREDUCE", "ts": 5, "pid": 3})");
  CHECK(record([&] { text.tick(1, 6, 3); }) == R"({"ph": "X", "name": "1", "ts": 6, "pid": 3, "dur": 0})");
  CHECK(record([&] { text.end(7, 3); }) == R"({"ph": "E", "ts": 7, "pid": 3})");
  CHECK(record([&] { text.cycle(8); }) == R"({"ph": "i", "name": "CYCLE_START", "ts": 8, "s": "g"})");
  CHECK(record([&] { text.dropped(9, 10); }) ==
        R"({"ph": "i", "name": "DROPPED_EVENTS", "ts": 10, "s": "g", "args": {"count": 9}})");
}

TEST_CASE("records are joined by commas, and taken once", "[timeline]") {
  trace_text text;
  CHECK(text.size() == 0);
  text.end(1, 1);
  text.end(2, 1);
  CHECK(text.take() == R"({"ph": "E", "ts": 1, "pid": 1},)"
                       "\n"
                       R"({"ph": "E", "ts": 2, "pid": 1})");
  CHECK(text.take().empty());
}

TEST_CASE("the name of a tensor may hold any bytes", "[timeline]") {
  trace_text text;
  text.process(1, "a\"\n\xff");
  CHECK(text.take().find(R"({"name": "a\"\n\\xff"})") != std::string::npos);
}
