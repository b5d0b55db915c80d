// Operations of the paths between hosts, with real processes.
#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/p2p/p2p_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

struct recipe {
  dtype type;
  reduce_op op;
  std::vector<std::size_t> counts;
  bool in_place = false;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t joined = -1; ///< this member contributes nothing
};

std::string allreduce(member& self, std::uint64_t sequence, const recipe& recipe) {
  std::vector<bytes> inputs, outputs, wanted;
  for (std::size_t at = 0; at < recipe.counts.size(); ++at) {
    std::vector<bytes> all;
    std::vector<const std::byte*> pointers;
    for (std::int32_t rank = 0; rank < self.size; ++rank) {
      all.push_back(contents(recipe.type, recipe.counts[at], rank, at));
      if (rank == recipe.joined)
        fill_neutral(recipe.type, recipe.op, all.back().data(), recipe.counts[at]);
    }
    for (const bytes& part : all)
      pointers.push_back(part.data());
    wanted.emplace_back(all[0].size());
    if (recipe.counts[at] != 0)
      reduce(recipe.type, recipe.op, wanted.back().data(), pointers, recipe.counts[at], recipe.prescale,
             recipe.postscale, static_cast<std::size_t>(self.size));
    inputs.push_back(all[static_cast<std::size_t>(self.rank)]);
    outputs.emplace_back(all[0].size());
  }
  work bundle;
  bundle.sequence = sequence;
  bundle.dtype = recipe.type;
  bundle.reduce_op = recipe.op;
  bundle.prescale = recipe.prescale;
  bundle.postscale = recipe.postscale;
  const bool absent = self.rank == recipe.joined;
  for (std::size_t at = 0; at < inputs.size(); ++at)
    bundle.parts.push_back({absent ? nullptr : inputs[at].data(),
                            absent ? nullptr : (recipe.in_place ? inputs[at] : outputs[at]).data(),
                            inputs[at].size(),
                            {}});
  if (const outcome end = self.path->run(bundle, self.deadline()); end.error)
    return end.error.text;
  std::string problem;
  for (std::size_t at = 0; at < inputs.size() && !absent; ++at)
    problem += differs("allreduce of " + std::string{to_string(recipe.type)} + " part " + std::to_string(at),
                       recipe.in_place ? inputs[at] : outputs[at], wanted[at]);
  return problem;
}

std::string allgather(member& self, std::uint64_t sequence,
                      const std::vector<std::vector<std::size_t>>& lengths) {
  work bundle;
  bundle.sequence = sequence;
  bundle.operation = operation::allgather;
  bundle.dtype = dtype::uint8;
  std::vector<bytes> inputs, outputs, wanted;
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    wanted.emplace_back();
    for (std::int32_t rank = 0; rank < self.size; ++rank) {
      const bytes rows = contents(dtype::uint8, lengths[at][static_cast<std::size_t>(rank)], rank, at);
      wanted.back().insert(wanted.back().end(), rows.begin(), rows.end());
      bundle.gathered.push_back(rows.size());
      if (rank == self.rank)
        inputs.push_back(rows);
    }
    outputs.emplace_back(wanted.back().size());
  }
  for (std::size_t at = 0; at < lengths.size(); ++at)
    bundle.parts.push_back({inputs[at].data(), outputs[at].data(), inputs[at].size(), {}});
  if (const outcome end = self.path->run(bundle, self.deadline()); end.error)
    return end.error.text;
  std::string problem;
  for (std::size_t at = 0; at < lengths.size(); ++at)
    problem += differs("allgather part " + std::to_string(at), outputs[at], wanted[at]);
  return problem;
}

std::string broadcast(member& self, std::uint64_t sequence, std::size_t length, std::int32_t root,
                      bool in_place) {
  bytes input = contents(dtype::uint8, length, self.rank, 0);
  bytes other(length);
  bytes& output = in_place ? input : other;
  work bundle = broadcast_of(input, output, root);
  bundle.sequence = sequence;
  // A second part, so that pieces contain bytes of both parts.
  bytes tail = contents(dtype::uint8, 77, self.rank, 1);
  bundle.parts.push_back({tail.data(), tail.data(), tail.size(), {}});
  if (const outcome end = self.path->run(bundle, self.deadline()); end.error)
    return end.error.text;
  return differs("broadcast", output, contents(dtype::uint8, length, root, 0)) +
         differs("broadcast tail", tail, contents(dtype::uint8, 77, root, 1));
}

} // namespace

TEST_CASE("between hosts: every operation gives every member the same bits as one reduction in rank order") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const std::int32_t size = GENERATE(1, 2, 3, 4);
  job members(between, size, [](member& self) {
    std::uint64_t sequence = 0;
    std::string problem;
    const std::vector<std::vector<std::size_t>> shapes = {{0},
                                                          {1},
                                                          {3},
                                                          {1000},
                                                          {70'001},
                                                          {large_count},
                                                          {5, 0, 1, 90'000, 2, 300'000, 7},
                                                          std::vector<std::size_t>(1000, 256)};
    for (const auto& counts : shapes)
      for (const bool in_place : {false, true}) {
        problem += allreduce(self, sequence++, {dtype::float32, reduce_op::sum, counts, in_place});
        problem += allreduce(self, sequence++, {dtype::bfloat16, reduce_op::average, counts, in_place});
      }
    for (const dtype type : {dtype::uint8, dtype::int64, dtype::float16, dtype::float64})
      for (const reduce_op op : {reduce_op::min, reduce_op::max, reduce_op::sum})
        problem += allreduce(self, sequence++, {type, op, {3, 50'000}, true, 0.5, 2.0});
    problem += allreduce(self, sequence++,
                         {dtype::float32, reduce_op::product, {9}, false, 1.0, 1.0, self.size - 1});
    problem += allreduce(self, sequence++, {dtype::float32, reduce_op::sum, {9, 200'000}, true, 3.0, 0.1, 0});
    std::vector<std::vector<std::size_t>> lengths(3);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(self.size); ++rank) {
      lengths[0].push_back(rank * 5);
      lengths[1].push_back(rank % 2 == 0 ? 0 : 3'000'000);
      lengths[2].push_back(100'000 * (rank + 1));
    }
    problem += allgather(self, sequence++, lengths);
    problem += allgather(self, sequence++, {lengths[0]});
    problem += allgather(self, sequence++, {lengths[1]});
    problem +=
        allgather(self, sequence++, {std::vector<std::size_t>(static_cast<std::size_t>(self.size), 0)});
    for (std::int32_t root = 0; root < self.size; ++root)
      for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{4'000'001}})
        problem += broadcast(self, sequence++, length, root, root % 2 == 0);
    for (int round = 0; round < 20; ++round)
      problem += barrier(self, sequence++);
    return problem;
  });
  for (std::int32_t rank = 0; rank < size; ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("between hosts: fusing tensors changes no bit of the result") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 3, [](member& self) {
    const std::vector<std::size_t> counts = {1, 33'333, 7, 250'000};
    std::vector<bytes> alone, fused;
    std::vector<work> works;
    work together;
    for (std::size_t at = 0; at < counts.size(); ++at) {
      alone.push_back(contents(dtype::float32, counts[at], self.rank, at));
      fused.push_back(alone.back());
    }
    std::uint64_t sequence = 0;
    for (std::size_t at = 0; at < counts.size(); ++at) {
      work single = large_allreduce(alone[at]);
      single.sequence = sequence++;
      if (const outcome end = self.path->run(single, self.deadline()); end.error)
        return end.error.text;
      together.parts.push_back({fused[at].data(), fused[at].data(), fused[at].size(), {}});
    }
    together.sequence = sequence++;
    if (const outcome end = self.path->run(together, self.deadline()); end.error)
      return end.error.text;
    return std::string{alone == fused ? "" : "fusion changed the result"};
  });
  for (std::int32_t rank = 0; rank < 3; ++rank)
    CHECK(members.hear(rank) == "");
}
