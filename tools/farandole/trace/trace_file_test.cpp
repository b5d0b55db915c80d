#include "tools/farandole/trace/trace_file.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

std::string bytes_of(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

std::string unpacked(const std::string& path) {
  auto* file = ::gzopen(path.c_str(), "rb");
  std::string text(1 << 20, '\0');
  text.resize(static_cast<std::size_t>(std::max(0, ::gzread(file, text.data(), 1 << 20))));
  ::gzclose(file);
  return text;
}

} // namespace

TEST_CASE("a trace is compressed if and only if its name ends with .gz", "[trace]") {
  const temporary_folder folder;
  const auto name = GENERATE("trace.json", "trace.json.gz");
  const auto path = folder.path() + "/" + name;
  std::string text;
  trace_file file(path);
  for (int i = 0; i < 20'000; ++i) { // more than the buffer holds
    file.stream() << "event " << i << "\n";
    text += "event " + std::to_string(i) + "\n";
  }
  CHECK(file.close());
  CHECK((bytes_of(path) == text) == !path.ends_with(".gz"));
  CHECK(unpacked(path) == text);
}

TEST_CASE("a trace that cannot be written is reported, with the reason in errno", "[trace]") {
  SECTION("the folder is missing") {
    trace_file file("/no/such/folder/trace.json");
    const auto reason = errno;
    CHECK(file.stream().bad());
    CHECK_FALSE(file.close());
    CHECK(reason == ENOENT);
  }
  SECTION("the disk is full") {
    trace_file file("/dev/full");
    file.stream() << "event";
    const auto closed = file.close();
    const auto reason = errno;
    CHECK_FALSE(closed);
    CHECK(reason == ENOSPC);
  }
}
