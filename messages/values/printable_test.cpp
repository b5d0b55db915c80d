#include "messages/values/printable.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("printable text stays unchanged, in any script", "[printable]") {
  for (const std::string text : {"", "layer.0/weight:0", "größe", "重み", "🙂", "a\\n"}) {
    CHECK(printable_name(text) == text);
    CHECK(printable(text) == text);
  }
}

TEST_CASE("control characters are escaped", "[printable]") {
  CHECK(printable_name("a\x1b[2Jb") == "a\\x1b[2Jb");
  CHECK(printable_name("a\rb\nc\td") == "a\\rb\\nc\\td");
  CHECK(printable_name(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable_name("\x7f") == "\\x7f");
  CHECK(printable_name("\xc2\x9b"
                       "2J") == "\\x9b2J"); // the one-character form of ESC [
  CHECK(printable_name("\xe2\x80\xae"
                       "abc") == "\\u202eabc");
  CHECK(printable_name("\xe2\x80\xa8") == "\\u2028");
}

TEST_CASE("a text keeps its newlines and tabs, and other control characters are escaped", "[printable]") {
  CHECK(printable("ranks:\n\t0: [a\x1b]") == "ranks:\n\t0: [a\\x1b]");
}

TEST_CASE("bytes that are not UTF-8 are escaped one by one", "[printable]") {
  CHECK(printable_name("a\x9b"
                       "b") == "a\\x9bb");
  CHECK(printable_name("\xc3") == "\\xc3");
  CHECK(printable_name("\xc0\x8a") == "\\xc0\\x8a");          // an overlong newline
  CHECK(printable_name("\xed\xa0\x80") == "\\xed\\xa0\\x80"); // half of a surrogate pair
  CHECK(printable_name("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");
}
