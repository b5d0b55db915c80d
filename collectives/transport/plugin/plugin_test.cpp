// Plugin paths: the example of docs/guides/paths.md between real processes, and libraries that are not
// plugins.
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <random>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/path_table.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/plugin/plugin_path.hpp"

using namespace farandole;
using namespace farandole::testing;

extern const char star_path_library[]; // CMake defines it

namespace {

path_options star_forced() {
  path_options options;
  options.wishes.forced = "plugin";
  options.plugin_library = star_path_library;
  return options;
}

bytes contents(dtype type, std::size_t count, std::size_t rank) {
  std::mt19937 random(static_cast<unsigned>(rank));
  return random_elements(type, count, random);
}

work bundle_of(operation op, bytes& tensor, dtype type = dtype::float32) {
  work bundle;
  bundle.operation = op;
  bundle.dtype = type;
  bundle.reduce_op = reduce_op::sum;
  if (op == operation::broadcast)
    bundle.root = 1;
  if (op != operation::barrier)
    bundle.parts.push_back({tensor.data(), tensor.data(), tensor.size(), {}});
  return bundle;
}

bytes sum_of(std::size_t members, dtype type, std::size_t count) {
  std::vector<bytes> all;
  std::vector<const std::byte*> pointers;
  for (std::size_t rank = 0; rank < members; ++rank)
    all.push_back(contents(type, count, rank));
  for (const auto& buffer : all)
    pointers.push_back(buffer.data());
  bytes result(all.front().size());
  reduce(type, reduce_op::sum, result.data(), pointers, count, 1.0, 1.0, members);
  return result;
}

std::string moves_announced_operations(forked_member& self) {
  for (const auto type : {dtype::float32, dtype::bfloat16, dtype::int64}) {
    bytes tensor = contents(type, 100'000, self.rank());
    work bundle = bundle_of(operation::allreduce, tensor, type);
    if (self.paths->choose(bundle).name() != "star")
      return "allreduce goes by another path";
    if (const error problem = self.run(bundle))
      return problem.text;
    if (tensor != sum_of(self.size(), type, 100'000))
      return "allreduce differs";
  }
  bytes tensor = contents(dtype::uint8, 1000, self.rank());
  if (const error problem = self.run(bundle_of(operation::broadcast, tensor, dtype::uint8)))
    return problem.text;
  if (tensor != contents(dtype::uint8, 1000, 1))
    return "broadcast differs";
  return self.run(bundle_of(operation::barrier, tensor)).text;
}

} // namespace

TEST_CASE("plugin: the example moves the operations that it announces, and built-in paths move the rest") {
  const std::vector<std::string> hosts =
      GENERATE(std::vector<std::string>{"a", "a", "a"}, std::vector<std::string>{"a", "b"});
  forked_members members(hosts, star_forced(), [](forked_member& self) {
    if (const std::string problem = moves_announced_operations(self); !problem.empty())
      return problem;
    work gather;
    gather.operation = operation::allgather;
    const auto& other = self.paths->choose(gather).name();
    if (other != (self.set.one_host() ? "local" : "tcp"))
      return "allgather goes by " + std::string(other);
    return self.paths->remark().find("star") == std::string::npos ? std::string("nothing is said of it") : "";
  });
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("plugin: an operation that the example refuses fails, and later operations succeed") {
  forked_members members({"a", "a"}, star_forced(), [](forked_member& self) {
    bytes tensor = contents(dtype::float32, 8, self.rank());
    work bundle = bundle_of(operation::allreduce, tensor);
    bundle.reduce_op = reduce_op::adasum;
    const error refused = self.run(bundle);
    if (refused.kind != error_kind::unimplemented ||
        refused.text.find("knows no Adasum") == std::string::npos)
      return "it ended in: " + refused.text;
    return moves_announced_operations(self);
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}

TEST_CASE("plugin: an abort, a deadline or a peer's death ends the wait, and the error names the path") {
  const std::string manner = GENERATE("abort", "deadline", "death");
  forked_members members({"a", "a"}, star_forced(), [manner](forked_member& self) -> std::string {
    bytes tensor = contents(dtype::float32, 1000, self.rank());
    work bundle = bundle_of(operation::allreduce, tensor);
    if (self.rank() == 1) {
      if (manner == "death")
        ::_exit(0);
      self.hear(); // receives nothing before the other member has ended
      return "";
    }
    deadline_and_abort deadline = self.deadline();
    if (manner == "abort")
      self.abort.raise();
    if (manner == "deadline")
      deadline.deadline = std::chrono::steady_clock::now();
    path& star = self.paths->choose(bundle);
    const error problem = star.run(bundle, deadline).error;
    const error later = star.run(bundle, self.deadline()).error;
    return to_string(problem.kind) == to_string(later.kind) ? problem.text : "the path went on";
  });
  const std::string end = members.hear(0);
  CHECK_THAT(end, Catch::StartsWith("the path star (" + std::string(star_path_library) + ") "));
  CHECK_THAT(end, Catch::Contains(manner == "abort"      ? "it was told to give up"
                                  : manner == "deadline" ? "patience (TEST_PATIENCE) = 240 s has passed"
                                                         : "rank 1"));
  members.tell(1, "go");
}

TEST_CASE("plugin: a library without a path is refused with the reason") {
  const auto refusal = [](const std::string& file) {
    const auto loaded = load_plugin_path(file);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().kind == error_kind::precondition);
    return loaded.error().text;
  };
  CHECK_THAT(refusal(""), Catch::Contains("none is named") && Catch::Contains("FARANDOLE_PATH_LIBRARY"));
  CHECK_THAT(refusal("libstar.so"), Catch::Contains("give its full path"));
  CHECK_THAT(refusal("/nowhere/libstar.so"), Catch::Contains("cannot open shared object file"));
  Dl_info values{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(&::getenv), &values) != 0);
  CHECK_THAT(refusal(values.dli_fname), Catch::Contains("exports no farandole_path()"));
}

TEST_CASE("plugin: operations of the library use the plugin path, and all others use the default paths") {
  path_wishes wishes;
  wishes.forced = "plugin";
  wishes.library_moves[static_cast<std::size_t>(operation::allgather)] = true;
  wishes.hierarchical_allreduce = wishes.hierarchical_allgather = true;
  const auto routes = routes_for({4, 2}, wishes);
  REQUIRE(routes);
  const auto route = [&](operation op) { return (*routes)[static_cast<std::size_t>(op)]->name; };
  CHECK(route(operation::allgather) == "plugin");
  CHECK(route(operation::allreduce) == "hierarchical");
  CHECK(route(operation::alltoall) == "tcp");
  CHECK((*routes_for({1, 1}, wishes))[static_cast<std::size_t>(operation::allgather)]->name == "solo");
}
