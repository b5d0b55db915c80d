#include "tools/farandole/report/step_cycle.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <string>

using namespace farandole;

namespace {

/// Each letter is the call of a tensor; spaces are for the reader.
std::string beginnings(const std::string& calls) {
  std::vector<std::uint32_t> names;
  for (const char letter : calls)
    if (letter != ' ')
      names.push_back(static_cast<std::uint32_t>(letter));
  std::string found;
  for (const auto name : step_beginnings(names))
    found += static_cast<char>(name);
  return found;
}

std::string repeated(const std::string& step, int times) {
  std::string calls;
  for (int i = 0; i < times; ++i)
    calls += step;
  return calls;
}

} // namespace

TEST_CASE("a step begins with the first name that recurs", "[report]") {
  CHECK(beginnings("abc abc abc") == "a");
  CHECK(beginnings("aaaa") == "a");
  CHECK(beginnings("xyz abc abc abc") == "a");  // a warm-up
  CHECK(beginnings("bc abc abc abc a") == "b"); // the record begins in the middle
}

TEST_CASE("without names that recur in three steps there are none", "[report]") {
  CHECK(beginnings("") == "");
  CHECK(beginnings("abcdef") == "");
  CHECK(beginnings("abc abc") == "");
  CHECK(beginnings("abcbcacab") == "");
  CHECK(beginnings("abcdefghijk a lmnopqr a stu") ==
        "a"); // only the loss has a name, and all others are numbered
}

TEST_CASE("a name may occur several times in a step, and not in every step", "[report]") {
  CHECK(beginnings(repeated("axbxcx", 5)) == "a");
  CHECK(beginnings(repeated("abc abc abc abcm", 5)) == "a"); // a metric after each fourth step
}

TEST_CASE("the order within a step does not matter", "[report]") {
  std::mt19937 random(7);
  std::string calls, step = "abcdefgh";
  for (int i = 0; i < 20; ++i) {
    std::shuffle(step.begin(), step.end(), random);
    calls += step;
  }
  CHECK(beginnings(calls).size() == 1);
  CHECK(beginnings(repeated("abcd abdc", 10)) == "a");
}

TEST_CASE("steps that alternate one by one are one step", "[report]") {
  CHECK(beginnings(repeated("abc xy", 10)) == "a");
}

TEST_CASE("steps of another kind that recur one after the other are found too", "[report]") {
  CHECK(beginnings(repeated(repeated("abc", 20) + repeated("xy", 5), 3)) == "ax");
  CHECK(beginnings(repeated("abc", 20) + repeated("xy", 5)) == "ax");
  CHECK(beginnings(repeated(repeated("abcdefg", 3) + repeated("xy", 2), 4)) == "ax");
}
