// Operations of the gloo path between real processes.
#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/adasum_testing.hpp"
#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/gloo/gloo_address.hpp"
#include "collectives/transport/gloo/gloo_library.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

path_options gloo_alone() {
  path_options options;
  options.wishes.forced = "gloo";
  return options;
}

/// The elements depend on the arguments only, so every member computes the same ones.
bytes contents(dtype type, std::size_t count, std::size_t rank, std::size_t part = 0) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + part));
  return random_elements(type, count, random);
}

struct recipe {
  dtype type;
  reduce_op op;
  std::vector<std::size_t> counts;
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t joined = SIZE_MAX; ///< this member contributes nothing
};

/// The expected reduction of one part of all members.
bytes reduced(const forked_member& self, const recipe& recipe, std::size_t count, std::size_t part) {
  std::vector<bytes> all;
  std::vector<const std::byte*> pointers;
  for (std::size_t rank = 0; rank < self.size(); ++rank) {
    all.push_back(contents(recipe.type, count, rank, part));
    if (rank == recipe.joined)
      fill_neutral(recipe.type, recipe.op, all.back().data(), count);
  }
  for (const bytes& buffer : all)
    pointers.push_back(buffer.data());
  bytes result(all[0].size());
  if (count != 0)
    reduce(recipe.type, recipe.op, result.data(), pointers, count, recipe.prescale, recipe.postscale,
           self.size());
  return result;
}

work bundle_of(operation op, const recipe& recipe) {
  work bundle;
  bundle.operation = op;
  bundle.dtype = recipe.type;
  bundle.reduce_op = recipe.op;
  bundle.prescale = recipe.prescale;
  bundle.postscale = recipe.postscale;
  return bundle;
}

std::string ended(forked_member& self, const work& bundle, const std::vector<bytes>& got,
                  const std::vector<bytes>& wanted, const char* text) {
  if (const error problem = self.run(bundle))
    return problem.text;
  return got == wanted ? "" : std::string(text) + " differs; ";
}

/// Runs an allreduce in place.
std::string allreduce(forked_member& self, const recipe& recipe) {
  std::vector<bytes> tensors, wanted;
  const bool absent = self.rank() == recipe.joined;
  for (std::size_t at = 0; at < recipe.counts.size(); ++at) {
    tensors.push_back(contents(recipe.type, recipe.counts[at], self.rank(), at));
    wanted.push_back(absent ? tensors.back() : reduced(self, recipe, recipe.counts[at], at));
  }
  work bundle = bundle_of(operation::allreduce, recipe);
  for (bytes& tensor : tensors)
    bundle.parts.push_back(
        {absent ? nullptr : tensor.data(), absent ? nullptr : tensor.data(), tensor.size(), {}});
  return ended(self, bundle, tensors, wanted, "allreduce");
}

std::string allgather(forked_member& self, const std::vector<std::size_t>& lengths) {
  work bundle = bundle_of(operation::allgather, {dtype::uint8, reduce_op::sum, {}});
  bundle.gathered = lengths;
  bytes wanted;
  for (std::size_t rank = 0; rank < self.size(); ++rank) {
    const bytes rows = contents(dtype::uint8, lengths[rank], rank);
    wanted.insert(wanted.end(), rows.begin(), rows.end());
  }
  const bytes input = contents(dtype::uint8, lengths[self.rank()], self.rank());
  std::vector<bytes> output{bytes(wanted.size())};
  bundle.parts.push_back({input.data(), output[0].data(), input.size(), {}});
  return ended(self, bundle, output, {wanted}, "allgather");
}

std::string broadcast(forked_member& self, std::size_t length, std::int32_t root) {
  work bundle = bundle_of(operation::broadcast, {dtype::uint8, reduce_op::sum, {}});
  bundle.root = root;
  std::vector<bytes> tensor{contents(dtype::uint8, length, self.rank())};
  bundle.parts.push_back({tensor[0].data(), tensor[0].data(), length, {}});
  return ended(self, bundle, tensor, {contents(dtype::uint8, length, static_cast<std::size_t>(root))},
               "broadcast");
}

/// The number of bytes that member `from` sends to member `to`.
std::size_t sent_between(std::size_t from, std::size_t to) {
  return (from * 3 + to) % 4 * 50'001;
}

std::string alltoall(forked_member& self) {
  work bundle = bundle_of(operation::alltoall, {dtype::uint8, reduce_op::sum, {}});
  bytes input, wanted;
  for (std::size_t other = 0; other < self.size(); ++other) {
    const bytes part = contents(dtype::uint8, sent_between(self.rank(), other), self.rank(), other);
    const bytes theirs = contents(dtype::uint8, sent_between(other, self.rank()), other, self.rank());
    input.insert(input.end(), part.begin(), part.end());
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    bundle.sent.push_back(part.size());
    bundle.received.push_back(theirs.size());
  }
  bundle.longest = std::size_t{3} * 50'001;
  std::vector<bytes> output{bytes(wanted.size())};
  bundle.parts.push_back({input.data(), output[0].data(), input.size(), {}});
  return ended(self, bundle, output, {wanted}, "alltoall");
}

std::string reducescatter(forked_member& self, const recipe& recipe) {
  const std::size_t count = recipe.counts[0], element = size_of(recipe.type);
  work bundle = bundle_of(operation::reducescatter, recipe);
  for (std::size_t rank = 0; rank < self.size(); ++rank)
    bundle.sent.push_back((count * (rank + 1) / self.size() - count * rank / self.size()) * element);
  const bytes input = contents(recipe.type, count, self.rank()), all = reduced(self, recipe, count, 0);
  const auto from = static_cast<std::ptrdiff_t>(count * self.rank() / self.size() * element);
  const auto length = static_cast<std::ptrdiff_t>(bundle.sent[self.rank()]);
  std::vector<bytes> output{bytes(bundle.sent[self.rank()])};
  bundle.parts.push_back({input.data(), output[0].data(), input.size(), {}});
  return ended(self, bundle, output, {{all.begin() + from, all.begin() + from + length}}, "reducescatter");
}

std::string every_operation(forked_member& self) {
  if (self.paths->choose({}).name() != "gloo")
    return "another path";
  std::string problem;
  for (const auto& counts : std::vector<std::vector<std::size_t>>{{0},
                                                                  {1},
                                                                  {1000},
                                                                  {400'000},
                                                                  {5, 0, 1, 90'000, 2, 200'000, 7},
                                                                  std::vector<std::size_t>(300, 256)}) {
    problem += allreduce(self, {dtype::float32, reduce_op::sum, counts});
    problem += allreduce(self, {dtype::bfloat16, reduce_op::average, counts});
  }
  for (const dtype type : {dtype::uint8, dtype::int64, dtype::float16, dtype::float64})
    for (const reduce_op op : {reduce_op::min, reduce_op::max, reduce_op::product}) {
      problem += allreduce(self, {type, op, {3, 20'000}, 0.5, 2.0});
      problem += reducescatter(self, {type, op, {20'001}});
    }
  problem += allreduce(self, {dtype::float32, reduce_op::sum, {9, 100'000}, 3.0, 0.1, self.size() - 1});
  problem += reducescatter(self, {dtype::float32, reduce_op::average, {300'000}, 3.0, 0.1});
  std::vector<std::size_t> uneven, large;
  for (std::size_t rank = 0; rank < self.size(); ++rank) {
    uneven.push_back(rank * 5);
    large.push_back(rank % 2 == 0 ? 0 : 2'000'000);
  }
  problem += allgather(self, uneven) + allgather(self, large);
  for (std::size_t root = 0; root < self.size(); ++root)
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{1'500'001}})
      problem += broadcast(self, length, static_cast<std::int32_t>(root));
  problem += alltoall(self);
  for (int round = 0; round < 10; ++round)
    problem += self.run(bundle_of(operation::barrier, {dtype::uint8, reduce_op::sum, {}})).text;
  return problem;
}

} // namespace

TEST_CASE("gloo: packed addresses can be read back, and invalid bytes give no address") {
  const std::vector<std::string> addresses = {std::string("\2\0\1", 3) + std::string(400, '\0') + "\xff", "",
                                              std::string(5, '\0'), "abc"};
  const std::string packed = packed_addresses(addresses);
  CHECK(packed.size() < 30);
  for (std::size_t place = 0; place < addresses.size(); ++place)
    CHECK(address_at(packed, place) == addresses[place]);
  CHECK(address_at(packed, 4).empty());
  CHECK(address_at(packed.substr(0, packed.size() - 1), 3).empty());
  CHECK(address_at("", 0).empty());
}

TEST_CASE("gloo: the error for a missing Gloo library names the setting and the package to install") {
  const auto loaded = load_gloo_from("libfarandole_of_another_build.so");
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().kind == error_kind::unimplemented);
  CHECK_THAT(loaded.error().text, Catch::Contains("FARANDOLE_CPU_PATH=gloo") && Catch::Contains("libgloo0") &&
                                      Catch::Contains("libfarandole_of_another_build.so"));
}

TEST_CASE("gloo: every operation gives every member the same bits as one reduction in rank order") {
  // On one host and on several hosts: the results must not depend on the hosts.
  const auto hosts = GENERATE(std::vector<std::string>{"a", "a"}, std::vector<std::string>{"a", "b", "a"});
  forked_members members(hosts, gloo_alone(), every_operation);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("gloo: Adasum gives the same bits as the local path") {
  forked_members members({"a", "a"}, gloo_alone(), [](forked_member& self) {
    std::string problem;
    for (const auto& counts : adasum_counts) {
      const adasum_recipe recipe{dtype::float32, counts};
      auto tensors = recipe.inputs(self.set.rank);
      if (const error end = self.run(recipe.bundle(tensors, tensors)))
        return end.text;
      const auto wanted = adasum_host(static_cast<std::uint32_t>(self.size())).run(recipe, false, -1);
      problem += tensors == wanted[self.rank()] ? "" : "not what the local path makes of it; ";
    }
    return problem;
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}
