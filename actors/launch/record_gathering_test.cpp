#include "actors/launch/record_gathering.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

using notices = std::vector<std::string>;

TEST_CASE("a gathering is complete when every host that was asked has sent its records") {
  record_gathering gathering;
  CHECK_FALSE(gathering.is_complete()); // it is not known which hosts are asked
  gathering.expect({"a", "b"});
  CHECK(gathering.begin_part("a"));
  gathering.end_part("a");
  CHECK(gathering.begin_part("a"));
  gathering.complete("a", "");
  CHECK_FALSE(gathering.is_complete());
  gathering.complete("b", "a record cannot be copied");
  CHECK(gathering.is_complete());
  CHECK(gathering.notices() == notices{"host b: a record cannot be copied"});
}

TEST_CASE("a job without other hosts has a complete gathering") {
  record_gathering gathering;
  gathering.expect({});
  CHECK(gathering.is_complete());
  CHECK(gathering.notices().empty());
}

TEST_CASE("a host may send a part only when it was asked and the part before is written") {
  record_gathering gathering;
  gathering.expect({"a"});
  CHECK_FALSE(gathering.begin_part("b"));
  CHECK(gathering.begin_part("a"));
  CHECK_FALSE(gathering.begin_part("a"));
  gathering.complete("a", "");
  gathering.end_part("a");
  CHECK_FALSE(gathering.begin_part("a"));
}

TEST_CASE("hosts that are lost or do not answer in time are named once") {
  record_gathering gathering;
  gathering.expect({"a", "b", "c"});
  gathering.lose("b", "the connection ended");
  gathering.lose("b", "the connection ended");
  gathering.complete("c", "");
  CHECK_FALSE(gathering.is_complete());
  gathering.give_up("they did not arrive within 10 s");
  CHECK(gathering.is_complete());
  CHECK(gathering.notices() == notices{"the records of host b are missing: the connection ended",
                                       "the records of host a are missing: they did not arrive within 10 s"});
}
