#include "messages/values/json_text.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a text is written as JSON, with everything escaped that JSON does not allow in it",
          "[json_text]") {
  CHECK(json_text("") == R"("")");
  CHECK(json_text("rank 1 on alpha") == R"("rank 1 on alpha")");
  CHECK(json_text(R"(a "name" in C:\)") == R"("a \"name\" in C:\\")");
  CHECK(json_text("two\nlines,\ta tab") == R"("two\nlines,\ta tab")");
  CHECK(json_text(std::string_view("\0\x01\x1f", 3)) == R"("\u0000\u0001\u001f")");
  CHECK(json_text("\x7f\xc3\xa9") == "\"\x7f\xc3\xa9\"");
}
