#include "elastic/thread_affinity.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "messages/settings/settings.hpp"

using namespace farandole;

namespace {

using cores = std::vector<int>;

member local(std::int32_t rank, std::int32_t size) {
  member self;
  self.host_name = "node1";
  self.local_rank = rank;
  self.local_size = size;
  return self;
}

expected<int> chosen(const std::string& list, const member& self, const cores& allowed) {
  auto values = settings::built_in();
  REQUIRE_FALSE(values.assign(setting::thread_affinity, list, setting_source::environment));
  return choose_core(values, self, allowed);
}

/// The error's text without the citation of the setting, which must come first.
std::string refusal(const std::string& list, const member& self, const cores& allowed) {
  const auto core = chosen(list, self, allowed);
  REQUIRE_FALSE(core);
  const auto citation = "thread affinity (HOROVOD_THREAD_AFFINITY) = " + list;
  REQUIRE_THAT(core.error().text, Catch::StartsWith(citation));
  return core.error().text.substr(citation.size());
}

} // namespace

TEST_CASE("a core list is one core id, or several that commas separate", "[thread affinity]") {
  CHECK(parse_core_list("3") == cores{3});
  CHECK(parse_core_list("0,2,127,2") == cores{0, 2, 127, 2});
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "x", "1,x", "1x", "-1", "-0", "+1", " 1", "1 ", "0-3",
                           "1.0", "0x1", "1;2", "99999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_core_list(text));
  }
}

TEST_CASE("local rank i gets entry i, which ranks may share and of which there may be more than ranks",
          "[thread affinity]") {
  CHECK(*chosen("0,2", local(0, 2), {0, 1, 2}) == 0);
  CHECK(*chosen("0,2", local(1, 2), {0, 1, 2}) == 2);
  CHECK(*chosen("1,1", local(1, 2), {0, 1}) == 1);
  CHECK(*chosen("3,2,9", local(1, 2), {2, 3}) == 2);
  CHECK(*chosen("1", local(0, 1), {0, 1}) == 1);
}

TEST_CASE("a list that is wrong names the setting, its value, the local rank and the remedy",
          "[thread affinity]") {
  CHECK(refusal("0,x", local(1, 2), {0, 1}) ==
        " is no comma-separated list of core ids, so no thread of local rank 1 on node1 is pinned to a core; "
        "list one core id for each rank of the host, as in 0,1");
  CHECK(refusal("0", local(0, 2), {0, 1}) ==
        " has 1 entry for 2 ranks of the host, so no thread of local rank 0 on node1 is pinned to a core; "
        "list one core id for each rank of the host");
  CHECK(refusal("0,1", local(2, 3), {0, 1}).starts_with(" has 2 entries for 3 ranks of the host, "));
  CHECK(refusal("0,9", local(1, 2), {0, 1, 2, 4}) ==
        " names core 9, which this process may not use (it may use 0-2,4), so no thread of local rank 1 on "
        "node1 is pinned to a core; list cores of that set, or start the job with a wider affinity (taskset, "
        "the batch system, or the container)");
  CHECK(refusal("0", local(0, 1), {})
            .starts_with(" names core 0, which this process may not use (it may use no known core), "));
}

TEST_CASE("only the entry of the own local rank must be a core that this process may use",
          "[thread affinity]") {
  CHECK(*chosen("0,9", local(0, 2), {0, 1}) == 0);
}
