#include "collectives/transport/shm/shm_path.hpp"

#include <catch2/catch.hpp>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait long_wait{futex_wait::polling::yielding, std::chrono::microseconds(5),
                               yield_policy(true)};

deadline_and_abort no_end(const abort_token& abort) {
  return {abort, far(), "test deadline = 240 s"};
}

/// The members of one host and their local paths.
struct host {
  explicit host(std::uint32_t members, std::size_t chunk = 4096, std::uint32_t slots = 4) : members(members) {
    segment_layout layout;
    layout.generation = 3;
    layout.members = members;
    layout.chunk_bytes = chunk;
    layout.slots = slots;
    segments = make_segments(layout);
    for (std::uint32_t rank = 0; rank < members; ++rank)
      paths.push_back(std::make_unique<shm_path>(segments[rank], rank, long_wait));
  }

  /// Runs the work of every member; all must succeed.
  void run(const std::vector<work>& works) {
    std::vector<error> errors(members);
    together(members,
             [&](std::uint32_t rank) { errors[rank] = paths[rank]->run(works[rank], no_end(abort)).error; });
    for (const auto& error : errors)
      REQUIRE(error.text == "");
  }

  std::uint32_t members;
  std::vector<std::shared_ptr<shm_segment>> segments;
  std::vector<std::unique_ptr<shm_path>> paths;
  abort_token abort;
};

struct tensors {
  std::vector<std::vector<bytes>> inputs;  ///< by member, by part
  std::vector<std::vector<bytes>> outputs; ///< likewise
};

/// The work of each member on the tensors, in place on request.
std::vector<work> works_of(tensors& data, const work& pattern, bool in_place) {
  std::vector<work> result;
  for (std::size_t rank = 0; rank < data.inputs.size(); ++rank) {
    work task = pattern;
    data.outputs.resize(data.inputs.size());
    data.outputs[rank].resize(data.inputs[rank].size());
    for (std::size_t i = 0; i < data.inputs[rank].size(); ++i) {
      auto& output = data.outputs[rank][i];
      output = in_place ? data.inputs[rank][i] : bytes(data.inputs[rank][i].size(), std::byte{0xee});
      task.parts.push_back(
          {in_place ? output.data() : data.inputs[rank][i].data(), output.data(), output.size(), {}});
    }
    result.push_back(std::move(task));
  }
  return result;
}

tensors random_tensors(std::uint32_t members, dtype type, const std::vector<std::size_t>& counts,
                       unsigned seed) {
  std::mt19937 random(seed);
  tensors data;
  data.inputs.resize(members);
  for (auto& of_member : data.inputs)
    for (auto count : counts)
      of_member.push_back(random_elements(type, count, random));
  return data;
}

/// The expected reduction of all members' inputs.
bytes reduced(const tensors& data, std::size_t part, const work& task) {
  std::vector<const std::byte*> inputs;
  for (const auto& of_member : data.inputs)
    inputs.push_back(of_member[part].data());
  bytes result(data.inputs[0][part].size());
  reduce(task.dtype, task.reduce_op, result.data(), inputs, result.size() / size_of(task.dtype),
         task.prescale, task.postscale, inputs.size());
  return result;
}

void check_allreduce(host& local_host, const work& task, const std::vector<std::size_t>& counts,
                     bool in_place) {
  auto data = random_tensors(local_host.members, task.dtype, counts, 17);
  local_host.run(works_of(data, task, in_place));
  for (std::size_t part = 0; part < counts.size(); ++part) {
    const bytes wanted = reduced(data, part, task);
    for (std::uint32_t rank = 0; rank < local_host.members; ++rank)
      REQUIRE(data.outputs[rank][part] == wanted);
  }
}

} // namespace

TEST_CASE("an allreduce gives every member the bits of one reduction in rank order for every bundle size") {
  const auto members = GENERATE(1u, 2u, 3u, 4u);
  const auto type = GENERATE(dtype::uint8, dtype::int16, dtype::int64, dtype::float16, dtype::bfloat16,
                             dtype::float32, dtype::float64);
  const auto op =
      GENERATE(reduce_op::sum, reduce_op::average, reduce_op::min, reduce_op::max, reduce_op::product);
  work task;
  task.dtype = type;
  task.reduce_op = op;
  task.prescale = op == reduce_op::average ? 0.5 : 1.0;
  task.postscale = op == reduce_op::sum ? 3.0 : 1.0;
  host local_host(members, 4096, members == 3 ? 2 : 3);
  const std::size_t chunk = 4096 / size_of(type);
  const std::vector<std::vector<std::size_t>> bundles = {{0},
                                                         {1},
                                                         {7},
                                                         {chunk - 1},
                                                         {chunk},
                                                         {chunk + 1},
                                                         {5 * chunk + 13},
                                                         {1, 0, 3, chunk, 2, 2 * chunk + 1, 0, 5}};
  bool in_place = false;
  for (const auto& counts : bundles)
    check_allreduce(local_host, task, counts, in_place = !in_place);
}

TEST_CASE("a large allreduce gives the bits of one reduction for every chunk size") {
  const auto members = GENERATE(2u, 4u);
  const auto chunk = GENERATE(std::size_t{4096}, std::size_t{100} << 10, std::size_t{1} << 20);
  host local_host(members, chunk);
  work task;
  task.reduce_op = reduce_op::average;
  check_allreduce(local_host, task, {200'003, 1, 300'000, 77}, true);
  check_allreduce(local_host, task, {30'000}, false);
}

TEST_CASE("a bundle of a thousand small tensors is reduced correctly") {
  host local_host(3, 64 << 10);
  check_allreduce(local_host, {}, std::vector<std::size_t>(1000, 256), true);
}

TEST_CASE("a member that has joined contributes neutral elements to an allreduce") {
  const auto op = GENERATE(reduce_op::sum, reduce_op::min, reduce_op::product);
  const auto count = GENERATE(5u, 1000u, 5000u);
  host local_host(3);
  work task;
  task.reduce_op = op;
  auto data = random_tensors(3, task.dtype, {count, 3}, 5);
  for (auto& part : data.inputs[1])
    fill_neutral(task.dtype, op, part.data(), part.size() / 4);
  auto works = works_of(data, task, false);
  for (auto& part : works[1].parts)
    part = {nullptr, nullptr, part.input_bytes, {}};
  local_host.run(works);
  for (std::size_t part = 0; part < 2; ++part)
    for (auto rank : {0u, 2u})
      REQUIRE(data.outputs[rank][part] == reduced(data, part, task));
}

TEST_CASE("an allgather concatenates the members' tensors in rank order") {
  const auto members = GENERATE(2u, 3u, 4u);
  const auto scale = GENERATE(std::size_t{1}, std::size_t{1000}, std::size_t{7001});
  host local_host(members, 4096, members);
  std::mt19937 random(3);
  work task;
  task.operation = operation::allgather;
  task.dtype = dtype::uint8;
  std::vector<bytes> wanted(3);
  std::vector<std::vector<bytes>> inputs(members);
  for (std::size_t part = 0; part < 3; ++part)
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const std::size_t size = (rank + 2 * part) % 3 * scale; // some members contribute nothing
      task.gathered.push_back(size);
      inputs[rank].push_back(random_elements(dtype::uint8, size, random));
      wanted[part].insert(wanted[part].end(), inputs[rank][part].begin(), inputs[rank][part].end());
    }
  std::vector<std::vector<bytes>> outputs(members);
  std::vector<work> works(members, task);
  for (std::uint32_t rank = 0; rank < members; ++rank)
    for (std::size_t part = 0; part < 3; ++part) {
      outputs[rank].emplace_back(wanted[part].size());
      works[rank].parts.push_back({inputs[rank][part].data(), nullptr, inputs[rank][part].size(), {}});
      works[rank].parts[part].output = outputs[rank][part].data();
    }
  for (int again = 0; again < 3; ++again)
    local_host.run(works);
  for (std::uint32_t rank = 0; rank < members; ++rank)
    REQUIRE(outputs[rank] == wanted);
}

TEST_CASE("a broadcast gives every member the root's tensor") {
  const auto members = GENERATE(1u, 2u, 4u);
  const auto in_place = GENERATE(false, true);
  host local_host(members);
  for (std::uint32_t root = 0; root < members; ++root)
    for (const std::vector<std::size_t>& counts :
         {std::vector<std::size_t>{1}, {0}, {4096}, {4097, 0, 30'000, 1}, {100'000}}) {
      auto data = random_tensors(members, dtype::boolean, counts, root);
      work task;
      task.operation = operation::broadcast;
      task.dtype = dtype::boolean;
      task.root = static_cast<std::int32_t>(root);
      local_host.run(works_of(data, task, in_place));
      for (const auto& output : data.outputs)
        REQUIRE(output == data.inputs[root]);
    }
}

TEST_CASE("a barrier completes only after all members have arrived") {
  host local_host(4);
  std::atomic<unsigned> arrived{0};
  std::atomic<bool> early{false};
  together(4, [&](std::uint32_t rank) {
    work task;
    task.operation = operation::barrier;
    for (unsigned round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      if (local_host.paths[rank]->run(task, no_end(local_host.abort)).error || arrived.load() < 4 * round)
        early = true;
    }
  });
  REQUIRE_FALSE(early);
}

TEST_CASE("different operations can use the same slots one after the other") {
  host local_host(3, 4096, 3);
  std::mt19937 random(99);
  for (int i = 0; i < 60; ++i) {
    const std::size_t count = random() % 9000;
    if (random() % 2) {
      check_allreduce(local_host, {}, {count, random() % 50}, random() % 2);
    } else {
      auto data = random_tensors(3, dtype::float32, {count}, i);
      work task;
      task.operation = operation::broadcast;
      task.root = static_cast<std::int32_t>(random() % 3);
      local_host.run(works_of(data, task, true));
      for (const auto& output : data.outputs)
        REQUIRE(output == data.inputs[static_cast<std::size_t>(task.root)]);
    }
  }
}

TEST_CASE("the local path refuses reductions of booleans and tensors on a GPU") {
  host local_host(1);
  work task;
  task.dtype = dtype::boolean;
  REQUIRE(local_host.paths[0]->run(task, no_end(local_host.abort)).error.kind == error_kind::unimplemented);
  task.dtype = dtype::float32;
  task.parts.resize(1);
  task.parts[0].location.device = 0;
  REQUIRE(local_host.paths[0]->run(task, no_end(local_host.abort)).error.kind == error_kind::unimplemented);
}
