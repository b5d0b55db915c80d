#include "tools/farandole/chaos/child.hpp"

#include <catch2/catch.hpp>

using namespace farandole::chaos;

TEST_CASE("a process ends also if it prints more than a pipe holds, and its first words are kept",
          "[chaos]") {
  child_options options;
  options.program = "sh";
  options.words = {"sh", "-c", "echo first; head -c 200000 /dev/zero; echo last >&2; exit 3"};
  const auto ended = run_to_end(options);
  CHECK(ended.code == 3);
  CHECK(ended.said.starts_with("first\n"));
  CHECK(ended.said.size() == 1024);
}
