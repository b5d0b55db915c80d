#include "tools/farandole/trace/profiler_files.hpp"

#include <catch2/catch.hpp>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/temporary_folder.hpp"
#include "tools/farandole/explain/explain_testing.hpp"
#include "tools/farandole/trace/placed_profilers.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

constexpr const char* sound =
    R"({"baseTimeNanoseconds":1700000000000000000,"traceEvents":[{"ph":"X","name":"step","pid":100,"tid":1,"ts":-5000}]})";

/// A folder that lives as long as the test.
struct test_folder {
  const temporary_folder made;
  const std::string path = made.path();

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    std::ofstream(path + "/" + name, std::ios::binary) << text;
    return path + "/" + name;
  }
};

std::string compressed(const std::string& text) {
  const test_folder folder;
  const auto path = folder.path + "/x";
  auto* file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
  std::ifstream bytes(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(bytes), {}};
}

} // namespace

TEST_CASE("traces of profilers are found in a folder, compressed or not") {
  const test_folder folder;
  const auto plain = folder.write("a.pt.trace.json", sound);
  const auto packed = folder.write("inner/b.json.gz", compressed(sound));
  folder.write("rank-0.events", "a record");
  folder.write("merged.json", R"({"metadata":{"dropped_events":0},"traceEvents":[]})");
  const auto output = folder.write("trace.json", "the trace that will be replaced");
  // Each file once.
  const auto found = find_profiler_files({folder.path, plain, folder.path + "/inner/../inner"}, output);
  CHECK(found.problems.empty());
  REQUIRE(found.files.size() == 2);
  CHECK(found.files[0].path == plain);
  CHECK(found.files[1].path == packed);
  CHECK(found.files[1].profiler == "torch.profiler");
  CHECK(found.files[1].facts.events == 1);
}

TEST_CASE("files that cannot be used are named with the reason, and the others are read") {
  const test_folder folder;
  folder.write("a.json", sound);
  folder.write("b.json", "garbage");
  folder.write("c.json", R"({"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":5}]})");
  auto damaged = compressed(sound + std::string(100'000, ' '));
  for (std::size_t i = 20; i < damaged.size(); ++i)
    damaged[i] = '\xff';
  folder.write("d.json.gz", damaged);
  folder.write("e.xplane.pb", "garbage");
  folder.write("f.json", std::string(sound).substr(0, 60));
  folder.write("g.json", "{}");
  folder.write("h.json", std::string(sound).substr(0, std::string(sound).size() - 2) + ",");
  const auto found = find_profiler_files({folder.path, folder.path + "/absent"}, folder.path + "/output");
  std::vector<std::string> problems;
  for (const auto& problem : found.problems)
    problems.push_back(problem.substr(folder.path.size() + 1));
  CAPTURE(problems);
  REQUIRE(problems.size() == 8);
  CHECK(problems[0] == "absent is left out: it cannot be read: No such file or directory");
  CHECK(problems[1] == "b.json is left out: it is no JSON at byte 1");
  CHECK(problems[2] ==
        "c.json is left out: it does not say when its events happened (baseTimeNanoseconds is missing)");
  CHECK(problems[3] == "d.json.gz is left out: its compressed data is damaged");
  CHECK(problems[4].starts_with(
      "e.xplane.pb is left out: it is not complete, or is no trace of TensorFlow's profiler"));
  CHECK(problems[5].starts_with("f.json is left out: it ends in the middle, after 60 bytes"));
  CHECK(problems[6] == "g.json is left out: it has no events of torch.profiler, TensorFlow or JAX");
  CHECK(problems[7].starts_with("h.json is shown with 1 events only: it ends in the middle"));
  REQUIRE(found.files.size() == 2);
  CHECK(found.files[0].path == folder.path + "/a.json");
}

TEST_CASE("the merged trace contains the events of profilers at their time") {
  const test_folder folder;
  folder.write("a.json", sound);
  folder.write("b.json", std::string(sound).replace(std::string(sound).find("100"), 3, "101")); // of rank 1
  auto record = made_record(0, 2).call(1, "x").record();
  const std::vector<event_record> records{record, made_record(1, 2).record(), made_record(2, 3).record()};
  placed_profilers profilers(find_profiler_files({folder.path, folder.path + "/rank-9.json"}, "output"),
                             records, made_record::start + 1s);
  CHECK(profilers.files() == 2);
  CHECK(profilers.problems().size() == 1);
  tick_reading reading{1'000'000'000, 1s, made_record::start + 1s};
  auto trace = merge_records(records, reading, profilers.first_moments());
  std::ostringstream text;
  CHECK(profilers.write(trace, text) == 2);
  CHECK(text.str().ends_with("]}\n"));
  // The profiler's event was 5 ms before the start of the record, so the trace begins with it.
  CHECK(text.str().find(R"("ts":0.000,"name":"step")") != std::string::npos);
  CHECK(text.str().find(R"("ts":6000.000,"dur":0.000,"name":"submit x")") != std::string::npos);
}
