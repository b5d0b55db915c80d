#include "tools/farandole/csm_query.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

const std::string allocation_text = "---\n"
                                    "allocation_id: 77\n"
                                    "num_nodes: 2\n"
                                    "compute_nodes:\n"
                                    " - c699c001\n"
                                    " - c699c002\n"
                                    "isolated_cores: 2\n"
                                    "launch_node_name: c699launch01\n"
                                    "...\n";

std::string host_text(const std::string& cores, const std::string& sockets, const std::string& gpus) {
  return "---\nTotal_Records: 1\nRecord_1:\n  node_name: c699c001\n  discovered_cores: " + cores +
         "\n  discovered_gpus: " + gpus + "\n  discovered_sockets: " + sockets + "\n  comment:\n...\n";
}

template <class Value>
std::string refusal(const expected<Value>& result) {
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == error_kind::invalid_argument);
  CHECK_THAT(result.error().text, Catch::Contains("cannot be used: ") && Catch::Contains("-H name:slots"));
  return result.error().text;
}

} // namespace

TEST_CASE("an allocation has compute hosts and isolated cores, and a host has cores, sockets and GPUs") {
  const auto allocation = parse_csm_allocation(allocation_text);
  REQUIRE(allocation);
  CHECK(allocation->compute_hosts == std::vector<std::string>{"c699c001", "c699c002"});
  CHECK(allocation->isolated_cores == 2);
  const auto host = parse_csm_host(host_text("44", "2", "6"));
  REQUIRE(host);
  CHECK(host->cores == 44);
  CHECK(host->sockets == 2);
  CHECK(host->gpus == 6);
}

TEST_CASE("each compute host has a slot for each GPU, and the CPUs that are not isolated") {
  const csm_allocation allocation{{"a", "b"}, 1};
  CHECK(*csm_host_slots(allocation, {44, 2, 6}) == std::vector<host_slots>{{"a", 6}, {"b", 6}});
  CHECK(*csm_cpus_per_host(allocation, {44, 2, 6}, 4) == 168);
  CHECK(*csm_cpus_per_host({{"a"}, 0}, {44, 2, 6}, 1) == 44);
  CHECK(*csm_cpus_per_host({{"a"}, 21}, {43, 2, 6}, 1) == 1);
  CHECK_THAT(refusal(csm_cpus_per_host({{"a"}, 22}, {44, 2, 6}, 4)),
             Catch::Contains("discovered_cores is 44, but the system keeps 44"));
  CHECK_THAT(refusal(csm_host_slots(allocation, {44, 2, 0})), Catch::Contains("discovered_gpus is 0"));
  CHECK(csm_host_slots(allocation, {44, 2, 16384}));
  CHECK_THAT(refusal(csm_host_slots({std::vector<std::string>(5, "a"), 0}, {44, 2, 16384})),
             Catch::Contains("5 hosts with 16384 GPUs each are more than 65536 slots"));
}

TEST_CASE("a compute host that is listed twice counts once") {
  const auto allocation = parse_csm_allocation("{compute_nodes: [b, a, b], isolated_cores: 0}");
  REQUIRE(allocation);
  CHECK(allocation->compute_hosts == std::vector<std::string>{"b", "a"});
}

TEST_CASE("an unusable output of CSM is refused with the command and the key") {
  for (const auto* text : {"", "- a", "text"})
    CHECK_THAT(refusal(parse_csm_allocation(text)),
               Catch::StartsWith(
                   "the output of csm_allocation_query cannot be used: it holds no 'key: value' lines"));
  refusal(parse_csm_allocation("a: [b"));
  for (const auto* text :
       {"isolated_cores: 0", "{isolated_cores: 0, compute_nodes: []}",
        "{isolated_cores: 0, compute_nodes: a}", "{isolated_cores: 0, compute_nodes: {a: b}}"})
    CHECK_THAT(refusal(parse_csm_allocation(text)), Catch::Contains("no list compute_nodes"));
  for (const auto* text :
       {"{isolated_cores: 0, compute_nodes: [a, 'b c']}", "{isolated_cores: 0, compute_nodes: [a, [b]]}"})
    CHECK_THAT(refusal(parse_csm_allocation(text)), Catch::Contains("is no host name"));
  CHECK_THAT(refusal(parse_csm_allocation("compute_nodes: [a]")),
             Catch::Contains("it has no number isolated_cores"));
  CHECK_THAT(refusal(parse_csm_allocation("{compute_nodes: [a], isolated_cores: -1}")),
             Catch::Contains("isolated_cores is '-1', no number from 0 to 16384"));
  CHECK_THAT(
      refusal(parse_csm_host("Total_Records: 0")),
      Catch::StartsWith("the output of csm_node_attributes_query cannot be used: it has no map Record_1"));
  CHECK_THAT(refusal(parse_csm_host("Record_1: {discovered_cores: 4, discovered_sockets: 1}")),
             Catch::Contains("it has no number discovered_gpus"));
  CHECK_THAT(refusal(parse_csm_host(host_text("x", "2", "6"))), Catch::Contains("discovered_cores is 'x'"));
  CHECK_THAT(refusal(parse_csm_host(host_text("44", "16385", "6"))),
             Catch::Contains("discovered_sockets is '16385'"));
}

TEST_CASE("lscpu says how many threads a core has") {
  CHECK(*parse_threads_per_core("Architecture: ppc64le\nThread(s) per core:  4\nCore(s) per socket: 22\n") ==
        4);
  CHECK(*parse_threads_per_core("Thread(s) per core: 1") == 1);
  CHECK_THAT(refusal(parse_threads_per_core("Architecture: x\n")),
             Catch::Contains("it has no line 'Thread(s) per core'"));
  for (const auto* text : {"Thread(s) per core: 0", "Thread(s) per core:", "Thread(s) per core: x\n1"})
    CHECK_THAT(refusal(parse_threads_per_core(text)), Catch::Contains("no number from 1 to"));
}
