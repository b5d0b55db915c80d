#include "elastic/node_list.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using names = std::vector<std::string>;
using numbers = std::vector<std::int32_t>;

names expanded(std::string_view list) {
  const auto hosts = expand_node_list(list);
  INFO(list);
  REQUIRE(hosts);
  return *hosts;
}

std::string refusal_of_list(std::string_view list) {
  const auto hosts = expand_node_list(list);
  INFO(list);
  REQUIRE_FALSE(hosts);
  CHECK(hosts.error().kind == error_kind::invalid_argument);
  return hosts.error().text;
}

std::string refusal_of_counts(std::string_view counts) {
  const auto slots = expand_node_counts(counts);
  INFO(counts);
  REQUIRE_FALSE(slots);
  CHECK(slots.error().kind == error_kind::invalid_argument);
  return slots.error().text;
}

} // namespace

// `scontrol show hostnames` of Slurm 22.05 prints the same for each list of this case and the next.
TEST_CASE("a node list keeps its order, and commas within brackets separate no names") {
  CHECK(expanded("n1") == names{"n1"});
  CHECK(expanded("n1, n2") == names{"n1", "n2"});
  CHECK(expanded("n[1-3,7]") == names{"n1", "n2", "n3", "n7"});
  CHECK(expanded("b,a[2],login-1.example_x") == names{"b", "a2", "login-1.example_x"});
  CHECK(expanded("n[1,1]") == names{"n1", "n1"});
  CHECK(expanded("[1-3]") == names{"1", "2", "3"});
}

TEST_CASE("the first number of a range sets the width to which its numbers are padded") {
  CHECK(expanded("n[08-11]") == names{"n08", "n09", "n10", "n11"});
  CHECK(expanded("n[8-11]") == names{"n8", "n9", "n10", "n11"});
  CHECK(expanded("n[001-3]") == names{"n001", "n002", "n003"});
  CHECK(expanded("n[9-011]") == names{"n9", "n10", "n11"});
  CHECK(expanded("n[01,1,001]") == names{"n01", "n1", "n001"});
  CHECK(expanded("n[98-101]") == names{"n98", "n99", "n100", "n101"});
}

TEST_CASE("the last brackets of a name vary fastest, and text may follow brackets") {
  CHECK(expanded("r[1-2]n[1-3]") == names{"r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3"});
  CHECK(expanded("n[1-2]-ib") == names{"n1-ib", "n2-ib"});
  CHECK(expanded("r[1]n[01-02].x,[1][2]") == names{"r1n01.x", "r1n02.x", "12"});
}

TEST_CASE("a malformed node list is refused with the part that is wrong") {
  CHECK(refusal_of_list("n[1-") == "the bracket in 'n[1-' is not closed");
  CHECK(refusal_of_list("a,n[1-2") == "the bracket in 'n[1-2' is not closed");
  CHECK_THAT(refusal_of_list("n[3-1]"), Catch::Contains("'3-1' ends before it begins"));
  for (const auto* list : {"n[]", "n[a-b]", "n[1-]", "n[-1]", "n[1-2-3]", "n[1-2,]", "n[1 - 2]", "n[[1]]",
                           "n[0x1]", "n[99999999999999999999]"})
    CHECK_THAT(refusal_of_list(list), Catch::Contains("neither a number nor a range"));
  for (const auto* list : {"", ",a", "a,", "a,,b", " "})
    CHECK_THAT(refusal_of_list(list), Catch::Contains("a name is missing"));
  for (const auto* list : {"n1]", "n[1]]", "a b", "a:2", "n(x3)", "a/b", "[1]:2"})
    CHECK_THAT(refusal_of_list(list), Catch::Contains("cannot be part of a host name"));
  CHECK(refusal_of_list("a\x1b[31m").find('\x1b') == std::string::npos);
}

TEST_CASE("a node list of more hosts than a job may have is refused before it is expanded") {
  CHECK(expanded("n[1-65536]").size() == most_hosts);
  CHECK(expanded("r[1-256]n[1-256]").back() == "r256n256");
  for (const auto* list : {"n[1-65537]", "n[0-65536]", "n[1-999999999]", "n[0-18446744073709551615]",
                           "a,n[1-65536]", "n[1-65536],a", "r[1-256]n[1-257]",
                           "a[1-65536]b[1-65536]c[1-65536]d[1-65536]e[1-65536]", "n[1-40000,1-40000]"})
    CHECK(refusal_of_list(list) == "it names more than 65536 hosts");
}

TEST_CASE("a host name is at most 253 characters long") {
  const std::string prefix(250, 'n');
  CHECK(expanded(prefix + "[998-999]").back() == prefix + "999");
  for (const auto& list :
       {prefix + "[998-1000]", prefix + "[0001]", prefix + "[1]abc", std::string(254, 'n')})
    CHECK_THAT(refusal_of_list(list), Catch::Contains("more than 253 characters"));
}

TEST_CASE("numbers for each host are repeated as often as they say") {
  CHECK(*expand_node_counts("4") == numbers{4});
  CHECK(*expand_node_counts("2(x3),1") == numbers{2, 2, 2, 1});
  CHECK(*expand_node_counts("1,65536(x1), 2") == numbers{1, 65536, 2});
  CHECK(expand_node_counts("1(x65535),1")->size() == most_hosts);
}

TEST_CASE("malformed numbers for each host are refused") {
  for (const auto* counts : {"", ",", "1,", "x", "0", "-1", "65537", "2(x0)", "2(x)", "2(x-1)", "2(3)",
                             "2(x3", "2x3", "2(x3)(x3)", "(x3)", "2(x", "2(x3)1", "2(x999999999)"})
    CHECK_THAT(refusal_of_counts(counts), Catch::Contains("is not of the form 2 or 2(x3)"));
  CHECK(refusal_of_counts("1(x65536),1") == "it names more than 65536 hosts");
}

TEST_CASE("a dash may follow brackets, but not begin a name") {
  CHECK(*expand_node_list("n[1-2]-ib,m[1]-[2]") == std::vector<std::string>{"n1-ib", "n2-ib", "m1-2"});
  for (const auto* list : {"-V", "-n[1-2]", "a,-n[1]"})
    CHECK_THAT(expand_node_list(list).error().text, Catch::Contains("cannot be part of a host name"));
}

TEST_CASE("a host name has neither slots nor brackets") {
  CHECK(is_host_name("node-1.example_x"));
  for (const auto* text : {"", "a:1", "a:", "[::1]", "a b", "a,b"})
    CHECK_FALSE(is_host_name(text));
}
