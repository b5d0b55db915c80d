#include <catch2/catch.hpp>

#include "actors/pmi/pmi_line.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

pmi_line parsed(std::string_view text) {
  auto line = parse_pmi_line(text);
  REQUIRE(line);
  return *line;
}

std::string refusal(std::string_view text) {
  const auto line = parse_pmi_line(text);
  return line ? "accepted" : line.error().text;
}

} // namespace

TEST_CASE("the replies of MPICH, Intel MPI and Slurm are decoded", "[pmi]") {
  const auto by_mpich = parsed("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
  CHECK(by_mpich.command == "maxes");
  CHECK(by_mpich.field("vallen_max") == "1024");
  CHECK_FALSE(objection_to_reply(by_mpich, "maxes"));
  const auto by_intel = parsed("cmd=get_result rc=0 msg=success value=a;10.0.0.1;40=41");
  CHECK(by_intel.field("value") == "a;10.0.0.1;40=41");
  const auto without_code = parsed("cmd=my_kvsname kvsname=kvs_12307_0 ");
  CHECK(without_code.field("kvsname") == "kvs_12307_0");
  CHECK_FALSE(objection_to_reply(without_code, "my_kvsname"));
  CHECK(parsed("cmd=barrier_out").fields.empty());
  CHECK(parsed("cmd=get_result  rc=0   value=").field("value").empty());
}

TEST_CASE("a line that is not of PMI-1 is refused with its beginning and the reason", "[pmi]") {
  CHECK_THAT(refusal(""), Contains("names no command"));
  CHECK_THAT(refusal("   "), Contains("names no command"));
  CHECK_THAT(refusal("cmd="), Contains("names no command"));
  CHECK_THAT(refusal("HTTP/1.1 200 OK"), Contains("'HTTP/1.1 200 OK'") && Contains("key=value"));
  CHECK_THAT(refusal("cmd=init =1"), Contains("key=value"));
  CHECK_THAT(refusal("rc=0 cmd=init"), Contains("does not begin with its only field cmd"));
  CHECK_THAT(refusal("cmd=init cmd=put"), Contains("does not begin with its only field cmd"));
  CHECK_THAT(refusal("cmd=init rc=0 rc=1"), Contains("the field rc twice"));
  CHECK_THAT(refusal("cmd=a rc=\x01"), Contains("not printable"));
  CHECK_THAT(refusal(std::string("cmd=a\0b", 7)), Contains("not printable"));
}

TEST_CASE("the length of a line and the number of its fields are bounded", "[pmi]") {
  const std::string start = "cmd=get_result value=";
  CHECK(refusal(start + std::string(most_pmi_line_bytes - 1 - start.size(), 'x')) == "accepted");
  CHECK_THAT(refusal(start + std::string(most_pmi_line_bytes - start.size(), 'x')),
             Contains("longer than 8192"));
  std::string many = "cmd=a";
  for (std::size_t number = 0; number < most_pmi_fields; ++number)
    many += " k" + std::to_string(number) + "=v";
  CHECK(refusal(many) == "accepted");
  CHECK_THAT(refusal(many + " last=v"), Contains("more than 32 fields"));
}

TEST_CASE("an encoded request is decoded to the same fields", "[pmi]") {
  const auto text = encode_pmi_line("put", {{"kvsname", "k1"}, {"key", "a"}, {"value", "b=c"}});
  CHECK(text == "cmd=put kvsname=k1 key=a value=b=c\n");
  CHECK(parsed(std::string_view(text).substr(0, text.size() - 1)) ==
        pmi_line{"put", {{"kvsname", "k1"}, {"key", "a"}, {"value", "b=c"}}});
  CHECK_FALSE(is_pmi_value(""));
  CHECK_FALSE(is_pmi_value("a b"));
  CHECK_FALSE(is_pmi_value("a\n"));
  CHECK(is_pmi_value("a;=/"));
}

TEST_CASE("a reply to another request or with an error code is refused", "[pmi]") {
  CHECK_THAT(objection_to_reply(parsed("cmd=put_result rc=0"), "barrier_out").text,
             Contains("'put_result'") && Contains("'barrier_out'"));
  CHECK_THAT(
      objection_to_reply(parsed("cmd=get_result rc=-1 msg=key_missing value=unknown"), "get_result").text,
      Contains("(get_result): code -1, key_missing"));
}
