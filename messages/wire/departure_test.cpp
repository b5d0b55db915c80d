#include "messages/wire/departure.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/negotiation.hpp"
#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

TEST_CASE("the first line of a text is kept, printable and within the limit") {
  CHECK(printable_line("KeyError: 'a'\nsecond") == "KeyError: 'a'");
  CHECK(printable_line("bell\aand\x1b[31m") == "bell?and?[31m");
  CHECK(printable_line("").empty());
  CHECK(printable_line(std::string(500, 'x')).size() == exception_limit_bytes);
  CHECK(printable_line("ab\xc3\xa9", 3) == "ab"); // no character is cut apart
}

TEST_CASE("a departure that is too long, not printable or of unknown kind is refused") {
  const auto received = [](departure manner) {
    requests value;
    value.leaves = std::move(manner);
    return static_cast<bool>(decode_requests(encode(address{1, 0, 1}, value)));
  };
  CHECK(received({departure_kind::uncaught_exception, std::string(200, 'x'), 1}));
  CHECK_FALSE(received({departure_kind::uncaught_exception, std::string(201, 'x'), 1}));
  CHECK_FALSE(received({departure_kind::uncaught_exception, "two\nlines", 1}));
  CHECK_FALSE(received({static_cast<departure_kind>(departure_kind_count), "", 1}));
}

TEST_CASE("an exit code is sent with the departure, and is part of its text") {
  requests value;
  value.leaves = departure{departure_kind::exited, "", 4, 5};
  const auto received = decode_requests(encode(address{1, 0, 1}, value));
  REQUIRE(received);
  CHECK(received->leaves == value.leaves);
  CHECK(value.leaves->text() == "exited with code 5");
  CHECK(departure{departure_kind::exited, "no data", 4, 1}.text() == "exited with code 1 (no data)");
}

TEST_CASE("a schedule names a departed member only at the end, and only a valid rank") {
  const auto received = [](bool end, std::int32_t rank) {
    schedule value;
    value.end = end;
    value.departed = {{rank, {departure_kind::script_ended, "", 4}}};
    return static_cast<bool>(decode_schedule(encode(address{1, 0, 0}, value), 3));
  };
  CHECK(received(true, 2));
  CHECK_FALSE(received(true, 3));
  CHECK_FALSE(received(true, -1));
  CHECK_FALSE(received(false, 1));
}
