#include "messages/wire/records.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

TEST_CASE("messages about event records arrive as they were sent") {
  const record_task task{record_action::begin_traces, {20, 1 << 20}};
  const write_records asked{wire_version, "/tmp/a folder", 7, task};
  const auto heard = decode_write_records(travelled(encode(asked)));
  REQUIRE(heard);
  CHECK(*heard == asked);
  const records_written answer{"", 3, {"host b did not answer"}, 7};
  const auto told = decode_records_written(travelled(encode(answer)));
  REQUIRE(told);
  CHECK(*told == answer);
  const auto request =
      decode_record_request(travelled(encode(record_request{5, {record_action::end_traces, {}}})));
  REQUIRE(request);
  CHECK(*request == record_request{5, {record_action::end_traces, {}}});
  const record_part part{5, 2, 4096, std::string("a\0b", 3)};
  const auto piece = decode_record_part(travelled(encode(part)));
  REQUIRE(piece);
  CHECK(*piece == part);
  const auto taken = decode_record_part_taken(travelled(encode(record_part_taken{5})));
  REQUIRE(taken);
  CHECK(*taken == record_part_taken{5});
  const auto end = decode_records_sent(travelled(encode(records_sent{5, "no memory"})));
  REQUIRE(end);
  CHECK(*end == records_sent{5, "no memory"});
}

TEST_CASE("a request for records in another wire version is read no further than the version") {
  const auto heard = decode_write_records(travelled(encode(write_records{wire_version + 1, "relative", 1})));
  REQUIRE(heard);
  CHECK(heard->wire_version == wire_version + 1);
  CHECK(heard->folder.empty());
}

TEST_CASE("a request for records needs an absolute path, and a part must lie within a record") {
  CHECK_FALSE(decode_write_records(encode(write_records{wire_version, "relative", 1})));
  CHECK_FALSE(
      decode_write_records(encode(write_records{wire_version, "", 1, {record_action::end_traces, {}}})));
  CHECK(decode_write_records(encode(write_records{wire_version, "", 1, {record_action::begin_traces, {}}})));
  CHECK_FALSE(decode_write_records(encode(write_records{wire_version, std::string("/a\0b", 4), 1})));
  CHECK_FALSE(decode_record_request(encode(record_request{1, {static_cast<record_action>(3), {}}})));
  CHECK_FALSE(decode_record_part(encode(record_part{1, -1, 0, "a"})));
  CHECK_FALSE(decode_record_part(encode(record_part{1, 0, most_record_bytes, "a"})));
}
