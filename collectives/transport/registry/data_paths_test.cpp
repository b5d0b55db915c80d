#include "collectives/transport/registry/data_paths.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace farandole;

namespace {

/// The operations that the paths of a set with members on these hosts serve.
std::string served(const std::vector<std::string>& hosts, const path_wishes& wishes = {}) {
  set_view set;
  for (const auto& host : hosts) {
    member joined;
    joined.rank = static_cast<std::int32_t>(set.members.size());
    joined.host = host;
    joined.address = "127.0.0.1:1";
    set.members.push_back(joined);
  }
  path_options options;
  options.secret = "the job's secret";
  options.wishes = wishes;
  const auto opened = data_paths::open(set, options);
  REQUIRE(opened);
  return (*opened)->served_operations();
}

} // namespace

TEST_CASE("the operations that each path serves are listed by path, without join, which moves nothing") {
  const std::string all = "allreduce, allgather, broadcast, barrier, alltoall, reducescatter";
  CHECK(served({"a"}) == "solo (" + all + ")");
  CHECK(served({"a", "a"}) == "local (" + all + ")");
  CHECK(served({"a", "b"}) == "tcp (" + all + ")");
  path_wishes wishes;
  wishes.hierarchical_allreduce = true;
  CHECK(served({"a", "a", "b"}, wishes) ==
        "hierarchical (allreduce), tcp (allgather, broadcast, barrier, alltoall, reducescatter)");
}
