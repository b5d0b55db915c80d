#include "tools/farandole/csm_query.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/cli/shell_words.hpp"

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
  CHECK_THAT(result.error().text, Catch::Contains("cannot be used: "));
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

TEST_CASE("CSM is asked for the allocation and its first host, and lscpu runs on that host") {
  std::vector<std::string> asked;
  const output_reader answer = [&](const std::vector<std::string>& command) -> expected<std::string> {
    asked.push_back(shell_line(command));
    if (command.front() == "csm_allocation_query")
      return std::string("{compute_nodes: [b, c], isolated_cores: 1}");
    return command.front() == "ssh" ? std::string("Thread(s) per core: 4") : host_text("44", "2", "6");
  };
  const auto on_host = [](const std::string& host, std::string line) {
    return std::vector<std::string>{"ssh", host, std::move(line)};
  };
  CHECK(*query_csm_hosts("42", answer) == std::vector<host_slots>{{"b", 6}, {"c", 6}});
  CHECK(*query_csm_cpus("42", answer, on_host) == 168);
  const std::vector<std::string> queries{"csm_allocation_query -a 42", "csm_node_attributes_query -n b"};
  CHECK(asked == std::vector<std::string>{queries[0], queries[1], queries[0], queries[1], "ssh b lscpu"});
}

TEST_CASE(
    "the error says which query of CSM failed or what was wrong with its output, and what to do instead") {
  struct failure {
    std::string command;
    expected<std::string> output;
    std::string text;
  };
  const auto fails = [](const std::string& command) {
    return failure{command, error{error_kind::invalid_argument, command + " failed"}, command + " failed"};
  };
  const auto prints = [](const std::string& command, const std::string& output, const std::string& problem) {
    return failure{command, output, "the output of " + problem};
  };
  const std::string hosts_remedy = "; name the hosts with -H name:slots and the processes with -np";
  const std::string cpus_remedy =
      "; give jsrun's own options with --binding-args, or launch without it (--gloo)";
  const auto on_host = [](const std::string& host, std::string line) {
    return std::vector<std::string>{"ssh", host, std::move(line)};
  };
  for (const auto& wanted :
       {fails("csm_allocation_query"), fails("csm_node_attributes_query"), fails("ssh"),
        prints("csm_node_attributes_query", "Record_1: {}",
               "csm_node_attributes_query cannot be used: it has no number discovered_cores"),
        prints("ssh", "", "lscpu cannot be used: it has no line 'Thread(s) per core'")}) {
    const output_reader answer = [&](const std::vector<std::string>& command) -> expected<std::string> {
      if (command.front() == wanted.command)
        return wanted.output;
      return command.front() == "csm_allocation_query"
                 ? std::string("{compute_nodes: [b], isolated_cores: 1}")
                 : host_text("44", "2", "6");
    };
    const auto cpus = query_csm_cpus("42", answer, on_host);
    REQUIRE_FALSE(cpus);
    CHECK(cpus.error().text == wanted.text + cpus_remedy);
    const auto hosts = query_csm_hosts("42", answer);
    REQUIRE(static_cast<bool>(hosts) == (wanted.command == "ssh"));
    if (!hosts)
      CHECK(hosts.error().text == wanted.text + hosts_remedy);
  }
}

TEST_CASE("the folder of CSM is the last in PATH") {
  CHECK(with_csm_folder({"A=1", "PATH=/bin"}) ==
        std::vector<std::string>{"A=1", "PATH=/bin:/opt/ibm/csm/bin"});
  CHECK(with_csm_folder({}) == std::vector<std::string>{"PATH=/opt/ibm/csm/bin"});
}
